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

}  // namespace
}  // namespace l2l::failure_law
