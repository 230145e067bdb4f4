// A save beside training: it sees one version, whole, whatever the updates do meanwhile, and hangs nobody.
#include "eps/state_save.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <utility>

#include "l2l/errors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

struct SavedToy {
  explicit SavedToy(const StoreOptions& store_options)
      : options(store_options), store(toy_layout(), options, memory, failure, nullptr) {}

  // Held updates of the step may still be pending afterwards.
  void step(std::uint64_t number) {
    store.begin_step(number, toy_learning_rate(number));
    push_all(store, options, number);
    store.finish_step();
  }
  std::vector<float> state() {
    store.complete_updates();
    return whole_state(store);
  }

  StoreOptions options;
  TestMemory memory;
  Failure failure;
  ParameterStore store;
};

StoreOptions options_of(bool held, DType type) {
  StoreOptions options = toy_options();
  options.update = held ? UpdateMode::after_backward : UpdateMode::eager;
  options.wire = options.gradients = type;
  options.staging_slots = 4;  // a whole step fits although no update runs
  options.threads = 2;
  return options;
}

struct Saved {
  std::vector<std::vector<float>> groups;  // master, moments of each parameter, as whole_state() lists them
  std::vector<std::uint64_t> update_counts;

  std::vector<float> state() const {
    std::vector<float> all;
    for (const std::vector<float>& group : groups) all.insert(all.end(), group.begin(), group.end());
    return all;
  }
};

void read_group(const ParameterStore& store, GroupIndex group, Saved& saved) {
  const std::vector<ParameterSpec>& parameters = store.layout().groups[static_cast<std::size_t>(group)].parameters;
  std::vector<float>& values = saved.groups[static_cast<std::size_t>(group)];
  EXPECT_TRUE(values.empty()) << "a group is handed out twice";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const StatePart part : {StatePart::master, StatePart::moment1, StatePart::moment2}) {
      std::vector<float> all(static_cast<std::size_t>(parameters[i].shape.elements()));
      store.read(group, i, part, 0, std::span(all).first(all.size() / 2));
      store.read(group, i, part, static_cast<std::int64_t>(all.size() / 2), std::span(all).subspan(all.size() / 2));
      values.insert(values.end(), all.begin(), all.end());
    }
  }
  saved.update_counts[static_cast<std::size_t>(group)] = store.update_count(group);
}

Saved read_all(StateSave save, const ParameterStore& store) {
  const std::size_t groups = store.layout().groups.size();
  Saved saved{std::vector<std::vector<float>>(groups), std::vector<std::uint64_t>(groups)};
  while (const std::optional<GroupIndex> group = save.next()) read_group(store, *group, saved);
  return saved;
}

class BesideTraining : public ::testing::TestWithParam<std::pair<bool, DType>> {
 protected:
  StoreOptions options() const { return options_of(GetParam().first, GetParam().second); }
};

// The worst schedule: the whole next step is there, every group waits for its update, and nothing was saved yet.
TEST_P(BesideTraining, AWholeStepOvertakesTheSave) {
  SavedToy honest(options()), saver(options());
  honest.step(0);
  const std::vector<float> expected = honest.state();
  honest.step(1);
  saver.step(0);
  StateSave save = saver.store.begin_save();  // held updates of step 0 may be pending
  saver.step(1);
  const Saved saved = read_all(std::move(save), saver.store);
  EXPECT_EQ(saved.state(), expected);
  EXPECT_EQ(saved.update_counts, std::vector<std::uint64_t>(5, 1));
  EXPECT_EQ(saver.state(), honest.state()) << "training is not changed by a save";
}

TEST_P(BesideTraining, AnUpdateThatOvertakesTheSaveIsSeen) {
  L2L_NEEDS_FAULT_POINTS();
  SavedToy honest(options()), saver(options());
  honest.step(0);
  saver.step(0);
  const l2l::testing::ArmedFaultPoint armed("eps.update_overtakes_save");
  StateSave save = saver.store.begin_save();
  saver.step(1);
  EXPECT_NE(read_all(std::move(save), saver.store).state(), honest.state());
}

// On a thread, with leases going in and out, many times.
TEST_P(BesideTraining, EveryStepIsSavedWhileTheNextRuns) {
  constexpr std::uint64_t kSteps = 12;
  SavedToy honest(options()), saver(options());
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    Saved saved;
    std::thread thread(
        [&, save = saver.store.begin_save()]() mutable { saved = read_all(std::move(save), saver.store); });
    for (const LayerIndex layer : {kEmbedding, kFirstBlock, kSecondBlock, kHead}) saver.store.pull(layer, step);
    saver.step(step);
    thread.join();
    EXPECT_EQ(saved.state(), honest.state()) << "step " << step;
    honest.step(step);
  }
  EXPECT_EQ(saver.state(), honest.state());
}

INSTANTIATE_TEST_SUITE_P(All, BesideTraining,
                         ::testing::Values(std::pair(false, DType::f32), std::pair(true, DType::f32),
                                           std::pair(false, DType::bf16), std::pair(true, DType::bf16)));

TEST(StateSave, OnlyTheUpdateOfAGroupThatIsNotSavedWaits) {
  SavedToy toy(options_of(false, DType::f32));
  StateSave save = toy.store.begin_save();
  EXPECT_EQ(save.next(), kNorm);  // the backward pass completes it first
  EXPECT_EQ(save.next(), kBlock1);
  toy.step(0);
  while (toy.store.update_count(kNorm) == 0) std::this_thread::yield();
  for (const GroupIndex group : {kBlock1, kBlock0, kTable, kPositions}) EXPECT_EQ(toy.store.update_count(group), 0u);
  EXPECT_EQ(save.next(), kBlock0);
  while (toy.store.update_count(kBlock1) == 0) std::this_thread::yield();
  for (const GroupIndex group : {kBlock0, kTable, kPositions}) EXPECT_EQ(toy.store.update_count(group), 0u);
}

TEST(StateSave, ComesToItsEndWhenItIsGivenUp) {
  for (const bool held : {false, true}) {
    SavedToy toy(options_of(held, DType::f32));
    {
      StateSave save = toy.store.begin_save();
      save.next();
      toy.step(0);
    }
    toy.store.complete_updates();
    EXPECT_EQ(toy.store.update_count(kTable), 1u);
    const StateSave again = toy.store.begin_save();
  }
}

TEST(StateSave, OneAtATimeAndBetweenSteps) {
  SavedToy toy(options_of(false, DType::f32));
  {
    const StateSave save = toy.store.begin_save();
    EXPECT_THROW(toy.store.begin_save(), Error);
    EXPECT_THROW(toy.store.restore(3, std::vector<std::uint64_t>(5)), Error);
  }
  toy.store.begin_step(0, 0.1);
  EXPECT_THROW(toy.store.begin_save(), Error);
}

// What is there can be saved after a failure; what would never come is not waited for.
TEST(StateSave, AFailureOfTheRunIsNotWaitedThrough) {
  SavedToy toy(options_of(false, DType::f32));
  StateSave save = toy.store.begin_save();
  toy.failure.fail(std::make_exception_ptr(Error("the device is gone")));
  EXPECT_EQ(read_all(std::move(save), toy.store).groups[kTable].size(), 3u * 41 * 15);
  EXPECT_THROW(toy.store.begin_save(), Error);
}

TEST(StateSave, AWaitingSaverLearnsOfAFailure) {
  SavedToy toy(options_of(true, DType::f32));
  const WeightLease lease = toy.store.pull(kFirstBlock, 0);  // its held update never comes
  toy.step(0);
  std::thread saver([&, save = toy.store.begin_save()]() mutable {
    int groups = 0;
    try {
      while (save.next()) ++groups;
      ADD_FAILURE() << "all were saved";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the device is gone");
    }
    EXPECT_LT(groups, 5);
  });
  toy.failure.fail(std::make_exception_ptr(Error("the device is gone")));
  saver.join();
}

// Step 1 of a store, with a gradient that is not finite, after a sound step.
void fail_second_step(SavedToy& toy) {
  toy.step(0);
  toy.store.begin_step(1, 0.1);
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    std::vector<float> gradient = toy_gradient(toy.store.layout(), layer, 0, 1, DType::f32);
    if (layer == kFirstBlock) gradient[3] = std::numeric_limits<float>::infinity();
    push_gradient(toy.store, gradient, DType::f32, layer, 0);
  }
  EXPECT_THROW(toy.store.finish_step(), NumericError);
}

TEST(StateSave, AStepOfWhichAPartIsAppliedCannotBeSaved) {
  SavedToy toy(options_of(false, DType::f32));
  fail_second_step(toy);
  EXPECT_THROW(toy.store.begin_save(), NumericError);
}

TEST(StateSave, AfterAStepThatChangedNothingTheOneBeforeIsSaved) {
  SavedToy toy(options_of(true, DType::f32)), sound(toy.options);
  fail_second_step(toy);
  sound.step(0);
  EXPECT_EQ(read_all(toy.store.begin_save(), toy.store).state(), sound.state());
}

}  // namespace
}  // namespace l2l::eps::testing
