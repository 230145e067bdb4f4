// Sums of squares that come with the gradients: they stand for the check where a group has no other contribution, and
// for nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "l2l/errors.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

constexpr std::uint64_t kNormSteps = 3;

// As a device takes it, whose padding is 0.
double squares_of(const std::vector<float>& gradient) {
  double sum = 0;
  for (const float value : gradient) {
    if (!std::isnan(value)) sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

struct NormOutcome {
  std::vector<float> state;
  std::vector<double> norms;
};

enum class Squares { none, true_ones, four_times };

NormOutcome outcome(StoreOptions options, Squares squares) {
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  NormOutcome result;
  for (std::uint64_t step = 0; step < kNormSteps; ++step) {
    store.begin_step(step, toy_learning_rate(step));
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      for (int device = 0; device < options.devices; ++device) {
        const std::vector<float> gradient = toy_gradient(store.layout(), layer, device, step, options.gradients);
        const double sum = squares_of(gradient) * (squares == Squares::four_times ? 4 : 1);
        push_gradient(store, gradient, options.gradients, layer, device,
                      squares == Squares::none ? std::nullopt : std::optional(sum));
      }
    }
    result.norms.push_back(store.finish_step().gradient_norm);
    store.complete_updates();
  }
  result.state = whole_state(store);
  return result;
}

StoreOptions options_of(UpdateMode update, int devices) {
  StoreOptions options = toy_options();
  options.update = update;
  options.devices = devices;
  options.staging_slots = 4 * devices;
  return options;
}

TEST(DeviceNorm, GivesTheSameUpdatesAndNorm) {
  for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
    const StoreOptions options = options_of(update, 1);
    const NormOutcome checked = outcome(options, Squares::none), known = outcome(options, Squares::true_ones);
    EXPECT_EQ(checked.state, known.state);
    for (std::size_t step = 0; step < kNormSteps; ++step) {
      EXPECT_NEAR(known.norms[step], checked.norms[step], 1e-12 * checked.norms[step]);
    }
  }
}

// The blocks' gradients are not read for the norm: what the device says is what counts.
TEST(DeviceNorm, IsBelievedForABlock) {
  const StoreOptions options = options_of(UpdateMode::eager, 1);
  const NormOutcome known = outcome(options, Squares::true_ones), wrong = outcome(options, Squares::four_times);
  for (std::size_t step = 0; step < kNormSteps; ++step) EXPECT_GT(wrong.norms[step], 1.1 * known.norms[step]);
}

// The norm of a sum does not follow from the norms of its parts.
TEST(DeviceNorm, MeansNothingWhereSeveralDevicesContribute) {
  const StoreOptions options = options_of(UpdateMode::eager, 2);
  const NormOutcome checked = outcome(options, Squares::none), wrong = outcome(options, Squares::four_times);
  EXPECT_EQ(checked.norms, wrong.norms);
}

TEST(DeviceNorm, StopsTheStepWhenNotFinite) {
  for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
    const StoreOptions options = options_of(update, 1);
    TestMemory memory;
    Failure failure;
    ParameterStore store(toy_layout(), options, memory, failure, nullptr);
    store.begin_step(0, toy_learning_rate(0));
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      const double squares = layer == kFirstBlock ? std::numeric_limits<double>::infinity() : 1;
      push_gradient(store, toy_gradient(store.layout(), layer, 0, 0, options.gradients), options.gradients, layer, 0,
                    squares);
    }
    try {
      store.finish_step();
      ADD_FAILURE() << "the step ended well";
    } catch (const NumericError& error) {
      EXPECT_NE(std::string(error.what()).find(store.layout().layers[kFirstBlock].name), std::string::npos);
    }
    EXPECT_EQ(store.update_count(kBlock0), 0u);
  }
}

}  // namespace
}  // namespace l2l::eps::testing
