// Gradients that are not finite, and failures from elsewhere: the state stays whole and nobody hangs (law 8).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "l2l/errors.h"
#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {
namespace {

struct Case {
  UpdateMode update;
  ClipMode clip;
  DType type;
  float poison;
};

StoreOptions options_of(const Case& c) {
  StoreOptions options = toy_options();
  options.update = c.update;
  options.clip = c.clip;
  options.wire = options.gradients = c.type;
  options.staging_slots = 4;
  return options;
}

std::vector<float> group_state(const ParameterStore& store, GroupIndex group) {
  std::vector<float> all;
  const std::vector<ParameterSpec>& parameters = store.layout().groups[static_cast<std::size_t>(group)].parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t count = static_cast<std::size_t>(parameters[i].shape.elements());
    std::vector<float> master(count), moment1(count), moment2(count);
    read_state(store, group, i, {master, moment1, moment2});
    for (const std::vector<float>* field : {&master, &moment1, &moment2}) {
      all.insert(all.end(), field->begin(), field->end());
    }
  }
  return all;
}

// Pushes step `step` with `poison` in one element of `layer`.
void push_poisoned(ParameterStore& store, const StoreOptions& options, std::uint64_t step, LayerIndex broken,
                   std::size_t element, float poison) {
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    std::vector<float> gradient = toy_gradient(store.layout(), layer, 0, step, options.gradients);
    if (layer == broken) gradient[element] = poison;
    push_gradient(store, gradient, options.gradients, layer, 0);
  }
}

std::string numeric_error_of(ParameterStore& store) {
  try {
    store.finish_step();
  } catch (const NumericError& error) {
    return error.what();
  }
  return "";
}

class NotFinite : public ::testing::TestWithParam<Case> {};

TEST_P(NotFinite, LeavesTheLayerUnchangedAndNamesIt) {
  const StoreOptions options = options_of(GetParam());
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  run_step(store, options, 0);
  const std::vector<float> block = group_state(store, kBlock0), everything = whole_state(store);
  store.begin_step(1, 0.01);
  push_poisoned(store, options, 1, kFirstBlock, 64 + 17000, GetParam().poison);  // in its second block of work
  EXPECT_EQ(numeric_error_of(store), std::string("step 2: layer h.0: gradient is not finite (NaN or infinity); weights "
                                                 "and moments of ") +
                                         (options.held() ? "all layers" : "the layer") + " are unchanged");
  EXPECT_EQ(group_state(store, kBlock0), block);
  EXPECT_EQ(store.update_count(kBlock0), 1u);
  if (options.held()) {  // the step is skipped
    store.complete_updates();
    EXPECT_EQ(whole_state(store), everything);
    EXPECT_FALSE(failure.failed());
  } else {
    EXPECT_THROW(store.pull(kFirstBlock, 2), NumericError);  // it will never come
    EXPECT_THROW(store.complete_updates(), NumericError);
  }
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
INSTANTIATE_TEST_SUITE_P(All, NotFinite,
                         ::testing::Values(Case{UpdateMode::eager, ClipMode::none, DType::f32, kNaN},
                                           Case{UpdateMode::eager, ClipMode::none, DType::bf16, -kInfinity},
                                           Case{UpdateMode::after_backward, ClipMode::none, DType::f32, kInfinity},
                                           Case{UpdateMode::after_backward, ClipMode::none, DType::bf16, kNaN},
                                           Case{UpdateMode::eager, ClipMode::global, DType::f32, kNaN}));

// Two fp32 numbers may overflow only in their sum.
TEST(NotFiniteSum, OfATiedTableNamesLayerAndGroup) {
  const StoreOptions options = toy_options();
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  const std::vector<float> table = group_state(store, kTable);
  store.begin_step(0, 0.01);
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    std::vector<float> gradient = toy_gradient(store.layout(), layer, 0, 0, DType::f32);
    if (layer == kHead) gradient[128] = std::numeric_limits<float>::max();
    if (layer == kEmbedding) gradient[0] = std::numeric_limits<float>::max();
    push_gradient(store, gradient, DType::f32, layer, 0);
  }
  EXPECT_EQ(numeric_error_of(store).find("step 1: layer head, group wte: gradient is not finite"), 0u);
  EXPECT_EQ(group_state(store, kTable), table);
}

TEST(LargeGradients, AreFiniteWhateverTheirSquares) {
  const StoreOptions options = toy_options();
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  store.begin_step(0, 0.01);
  push_poisoned(store, options, 0, kFirstBlock, 64, 3e38f);
  EXPECT_NEAR(store.finish_step().gradient_norm, 3e38, 1e32);
  store.complete_updates();
}

struct Boom : Error {
  using Error::Error;
};

// Many rounds, so that the failure comes before, while and after the reader falls asleep.
TEST(FailureElsewhere, WakesEveryWaiter) {
  for (int round = 0; round < 50; ++round) {
    TestMemory memory;
    Failure failure;
    StoreOptions options = toy_options();
    options.staging_slots = 1;
    ParameterStore store(toy_layout(), options, memory, failure, nullptr);
    store.begin_step(0, 0.01);
    const GradientBuffer first = store.gradient_buffer(kHead, 0), second = store.gradient_buffer(kHead, 0);
    std::vector<std::thread> waiters;
    waiters.emplace_back([&] { EXPECT_THROW(store.pull(kHead, 1), Boom); });
    waiters.emplace_back([&] { EXPECT_THROW(store.gradient_buffer(kHead, 0), Boom); });
    waiters.emplace_back([&] { EXPECT_THROW(store.finish_step(), Boom); });
    for (int turns = round * 10; turns > 0; --turns) std::this_thread::yield();
    failure.fail(std::make_exception_ptr(Boom("device lost")));
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_THROW(store.try_pull(kHead, 0), Boom);
  }
}

TEST(Destruction, InTheMiddleOfAStepIsClean) {
  for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
    for (LayerIndex pushed = kHead; pushed >= kEmbedding; --pushed) {
      StoreOptions options = toy_options();
      options.update = update;
      options.threads = 2;
      TestMemory memory;
      Failure failure;
      {
        ParameterStore store(toy_layout(), options, memory, failure, nullptr);
        store.begin_step(0, 0.01);
        for (LayerIndex layer = kHead; layer >= pushed; --layer) {
          push_gradient(store, toy_gradient(store.layout(), layer, 0, 0, DType::f32), DType::f32, layer, 0);
        }
      }
      failure.fail(std::make_exception_ptr(Boom("later")));  // the store's waker is gone with it
    }
  }
}

}  // namespace
}  // namespace l2l::eps::testing
