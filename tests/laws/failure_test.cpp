// Law 8: a failure anywhere stops the run with its error, and no thread hangs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/laws/small_run.h"
#include "tests/support/parameter_state.h"

namespace l2l::failure_law {
namespace {

using testing::FaultPlan;
using testing::SmallRun;

Options options_of(const SmallRun& run, const std::string& execution, const std::string& update) {
  Options options = run.options();
  options.device.execution = execution;
  options.optimizer.update = update;
  options.transfer.stash = "host";
  return options;
}

// Three steps make more than ninety calls of each kind; the calls that fail are spread over that range.
TEST(Failure, AFailingCopyOrLaunchEndsTheRunWithItsError) {
  const SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* update : {"eager", "after_backward"}) {
      for (std::int64_t call = 0; call < 90; call += 9) {
        FaultPlan copies, launches;
        copies.fail_copy = launches.fail_launch = call;
        for (const FaultPlan& faults : {copies, launches}) {
          EXPECT_THROW(testing::record_on(options_of(run, execution, update), 3, testing::faulty(faults)), DeviceError)
              << execution << " " << update << " call " << call;
        }
      }
    }
  }
}

TEST(Failure, AFailingAllocationEndsTheRunBeforeItBegins) {
  const SmallRun run;
  int failed = 0;
  for (std::int64_t call = 0;; ++call) {
    FaultPlan faults;
    faults.fail_allocation = call;
    try {
      testing::record_on(options_of(run, "relay", "eager"), 1, testing::faulty(faults));
      break;
    } catch (const OutOfMemory&) {
      ++failed;
    }
  }
  EXPECT_GT(failed, 5);
}

// No moment of any group has moved.
void expect_untouched(runtime::Engine& engine, const runtime::RunPlan& plan) {
  const auto& groups = plan.model.layout.groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      const auto size = static_cast<std::size_t>(groups[group].parameters[i].shape.elements());
      std::vector<float> master(size), moment1(size), moment2(size);
      read_state(engine.store(), static_cast<GroupIndex>(group), i, {master, moment1, moment2});
      EXPECT_EQ(moment1, std::vector<float>(size)) << groups[group].parameters[i].name;
      EXPECT_EQ(moment2, std::vector<float>(size)) << groups[group].parameters[i].name;
    }
  }
}

class NotFinite : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

// A NaN in one weight of block 1 reaches every gradient below the head; the layer named is the first one checked.
TEST_P(NotFinite, ANanStopsTheRunAndLeavesTheLayerAsItWas) {
  const SmallRun run;
  Options options = options_of(run, "relay", std::get<0>(GetParam()));
  options.precision.compute = std::get<1>(GetParam());
  if (options.precision.compute == "fp16") options.precision.loss_scale = 64;  // fixed: no step may be skipped
  runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  for (int u = 0; u < 3; ++u) std::fill(engine.minibatch().targets(u).begin(), engine.minibatch().targets(u).end(), 1);

  const GroupIndex block = 3;  // wte, wpe, h.0, h.1
  const auto& parameter = plan.model.layout.groups[block].parameters[2];
  const auto size = static_cast<std::size_t>(parameter.shape.elements());
  std::vector<float> master(size), moment1(size), moment2(size);
  read_state(engine.store(), block, 2, {master, moment1, moment2});
  master[5] = std::numeric_limits<float>::quiet_NaN();
  write_state(engine.store(), block, 2, {master, moment1, moment2});
  try {
    engine.train(0, 1e-3);
    FAIL() << "the NaN went unnoticed";
  } catch (const NumericError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("step 1: layer h"), std::string::npos) << message;  // "head" or a block, "h.N"
    EXPECT_NE(message.find("unchanged"), std::string::npos) << message;
  }
  if (std::get<0>(GetParam()) == "after_backward" || options.precision.compute == "fp16") {
    expect_untouched(engine, plan);
  }
  std::vector<float> after(size);
  read_state(engine.store(), block, 2, {after, moment1, moment2});
  for (std::size_t i = 0; i < size; ++i) {
    if (i != 5) {
      EXPECT_EQ(after[i], master[i]);
    }
    EXPECT_EQ(moment1[i], 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, NotFinite,
                         ::testing::Combine(::testing::Values("eager", "after_backward"),
                                            ::testing::Values("fp32", "bf16", "fp16")),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

// Steps until one is not finite; returns its message.
std::string diverge(Trainer& trainer) {
  try {
    while (trainer.completed_steps() < 10) trainer.step();
  } catch (const NumericError& error) {
    EXPECT_TRUE(error.nothing_changed());
    return error.what();
  }
  return "";
}

// Where a step is applied as a whole, one that is not finite leaves those before it to be saved, and the run goes on
// from there.
TEST(Divergence, TheStepsBeforeAreSavedAndGoOn) {
  const SmallRun run;
  for (const char* const update : {"eager", "after_backward"}) {
    Options options = options_of(run, "relay", update);
    options.checkpoint.directory = run.folder() / update;
    options.optimizer.name = "sgd";
    options.optimizer.clip = update == std::string("eager") ? "global" : "none";
    options.optimizer.learning_rate = options.optimizer.max_norm = 1e12;
    Trainer trainer(options);
    const std::string message = diverge(trainer);
    const std::int64_t sound = trainer.completed_steps();
    ASSERT_GT(sound, 0);
    EXPECT_NE(message.find("step " + std::to_string(sound + 1) + ": layer "), std::string::npos) << message;
    EXPECT_NE(message.find("a lower optimizer.learning_rate (now 1e+12)"), std::string::npos) << message;
    EXPECT_NE(message.find("no checkpoint was saved yet"), std::string::npos) << message;
    const std::filesystem::path folder = trainer.save();
    const std::uint64_t hash = trainer.weights_hash();

    Options undisturbed = options;
    undisturbed.checkpoint.directory.clear();
    Trainer same(undisturbed);
    for (std::int64_t step = 0; step < sound; ++step) same.step();
    EXPECT_EQ(same.weights_hash(), hash) << update;

    Trainer resumed(options);
    EXPECT_EQ(resumed.resume(options.checkpoint.directory), folder);
    EXPECT_EQ(resumed.completed_steps(), sound);
    EXPECT_EQ(resumed.weights_hash(), hash) << update;
    const std::string again = diverge(resumed);  // the same data, hence at the same step
    EXPECT_EQ(again.substr(0, again.find(';')), message.substr(0, message.find(';')));
    EXPECT_NE(again.find(folder.string() + ", after step " + std::to_string(sound)), std::string::npos) << again;
  }
}

}  // namespace
}  // namespace l2l::failure_law
