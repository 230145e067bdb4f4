// How weights come to several devices changes no bit: each copies all of a layer, or a slice that all of them gather.
// What crosses the links, and the memory it takes, are those of the plan.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/fault_point.h"
#include "runtime/plan/step_work.h"
#include "tests/laws/measured_memory.h"
#include "tests/laws/several_devices.h"
#include "tests/support/instrumented.h"

namespace l2l::feed_law {
namespace {

using testing::FaultPlan;
using testing::Record;
using testing::SmallRun;
using transfer::Traffic;

constexpr int kSteps = 3;

Options options_of(const SmallRun& run, std::int64_t devices, const std::string& feed,
                   const std::string& family = "gpt2") {
  Options options = testing::options_of_devices(run, devices, family);
  options.device.feed = feed;
  return options;
}

Record record(const Options& options) {
  Trainer trainer(options);
  Record record = testing::record_of(trainer, kSteps);
  EXPECT_EQ(trainer.link_counters().weights_gathered > 0, options.device.feed == "gathered");
  return record;
}

class FeedFamilies : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, FeedFamilies, ::testing::Values("gpt2", "bert", "llama", "llama_tied"));

TEST_P(FeedFamilies, GatheredWeightsGiveTheBitsOfWholeOnes) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16"}) {
    for (const std::int64_t count : {2, 3, 4}) {
      Options whole = options_of(run, count, "whole", GetParam()), gathered = whole;
      whole.precision.compute = gathered.precision.compute = compute;
      gathered.device.feed = "gathered";
      EXPECT_EQ(record(gathered), record(whole)) << count << " devices, " << compute;
    }
  }
}

TEST(Feed, GatheredWeightsGiveTheSameBitsHoweverTheRunIsExecuted) {
  const SmallRun run;
  const Record whole = record(options_of(run, 3, "whole"));
  const testing::Ways ways = {
      {"resident", [](Options& o) { o.device.execution = "resident"; }},
      {"prefetch", [](Options& o) { o.transfer.prefetch = 3; }},
      {"stash on the host", [](Options& o) { o.transfer.stash = "host"; }},
      {"weights that stay", [](Options& o) { o.transfer.resident_layers = 2; }},
      {"after backward", [](Options& o) { o.optimizer.update = "after_backward"; }},
      {"policy none", [](Options& o) { o.recompute.policy = "none"; }},
  };
  for (const auto& [name, change] : ways) {
    Options options = options_of(run, 3, "gathered");
    change(options);
    EXPECT_EQ(record(options), whole) << name;
  }
  Options chunks = options_of(run, 3, "whole");
  chunks.transfer.vocabulary_chunk = 72;
  const Record whole_chunks = record(chunks);
  chunks.device.feed = "gathered";
  EXPECT_EQ(record(chunks), whole_chunks);
}

// Passes of the first device alone, which has nobody to gather from, between passes of all.
TEST(Feed, ValidatingAndGeneratingGoOnBesideIt) {
  const SmallRun run;
  const std::vector<std::int32_t> prompt = {97, 98, 99};
  const auto outcome = [&](const char* feed, bool cache) {
    Trainer trainer(options_of(run, 3, feed));
    if (cache) trainer.reserve_generation({.longest_prompt = 3, .tokens = 4});
    testing::Outcome outcome;
    for (int step = 0; step < 2; ++step) {
      outcome.losses.push_back(trainer.step().loss);
      outcome.validation += *trainer.validation_loss();
      const std::vector<std::int32_t> more = trainer.generate(prompt, {.tokens = 4});
      outcome.tokens.insert(outcome.tokens.end(), more.begin(), more.end());
    }
    outcome.hash = trainer.weights_hash();
    return outcome;
  };
  for (const bool cache : {false, true}) EXPECT_EQ(outcome("gathered", cache), outcome("whole", cache)) << cache;
}

TEST(Feed, SameBitsHoweverLateADeviceIs) {
  const SmallRun run;
  const Options options = options_of(run, 3, "gathered");
  const Record first = testing::record_on(options, kSteps, testing::honest);
  for (std::uint64_t seed = 1; seed <= (testing::kInstrumented ? 1 : 4); ++seed) {
    EXPECT_EQ(testing::record_with_a_late_device(options, kSteps, seed), first) << seed;
  }
}

// Of a layer's wire on K devices, a slice is a K-th, rounded up to 256 bytes; the last ones have what is left.
struct Slice {
  Bytes copied, received;
};
Slice slice_of(Bytes wire, Bytes devices, Bytes device) {
  const Bytes each = ((wire + devices - 1) / devices + 255) / 256 * 256;
  const Bytes begin = std::min(wire, device * each), end = std::min(wire, (device + 1) * each);
  return {end - begin, (devices - 1) * each};
}

TEST(Feed, ALinkCarriesItsSlicesAndTheDevicesEachOthers) {
  const SmallRun run;
  for (const int count : {2, 3}) {
    const Options options = options_of(run, count, "gathered");
    const runtime::RunPlan plan = runtime::plan_run(options);
    runtime::Engine engine(plan, nullptr);
    engine.minibatch().draw(plan.model);
    engine.train(0, 1e-3);
    engine.store().complete_updates();
    Bytes all = 0, wires = 0;
    for (int device = 0; device < count; ++device) {
      Bytes copied = 0, received = 0;
      for (int layer = 0; layer < plan.model.layers(); ++layer) {
        const bool twice = plan.model.is_block(layer) && layer != plan.model.block(plan.model.blocks());
        const Bytes wire = plan.model.wire_bytes(layer);
        const Slice slice = slice_of(wire, static_cast<Bytes>(count), static_cast<Bytes>(device));
        copied += (twice ? 2 : 1) * slice.copied;
        received += (twice ? 2 : 1) * slice.received;
        if (device == 0) wires += (twice ? 2 : 1) * wire;
      }
      EXPECT_EQ(engine.link(device).h2d(Traffic::weights), copied) << device << " of " << count;
      EXPECT_EQ(engine.link(device).gathered(), received) << device << " of " << count;
      all += copied;
    }
    EXPECT_EQ(all, wires);
    EXPECT_EQ(engine.link_counters().weights_h2d, wires);
    Bytes work_copied = 0, work_received = 0;
    for (const runtime::VisitWork& visit : runtime::step_work(plan)) {
      work_copied += visit.weights.total();
      work_received += visit.gathered.total();
    }
    EXPECT_EQ(work_copied, engine.link(0).h2d(Traffic::weights));
    EXPECT_EQ(work_received, engine.link(0).gathered());
  }
}

TEST(Feed, AReportHasWhatWasGathered) {
  const SmallRun run;
  Trainer gathered(options_of(run, 3, "gathered")), whole(options_of(run, 3, "whole"));
  const StepReport report = gathered.step(), plain = whole.step();
  EXPECT_EQ(report.gathered_bytes, gathered.link_counters().weights_gathered);
  EXPECT_NE(to_json(report).find("\"gathered_bytes\":"), std::string::npos);
  EXPECT_EQ(plain.gathered_bytes, 0u);
  EXPECT_EQ(to_json(plain).find("gathered_bytes"), std::string::npos);
  EXPECT_LT(report.h2d_bytes, plain.h2d_bytes);
}

// Laws 1 and 3: slots have room for equal slices, and that is in the contract.
TEST(Feed, EachDeviceHasTheMemoryThatTheContractStates) {
  const SmallRun run;
  std::set<std::uint64_t> peaks;
  for (const std::int64_t layers : {2, 24}) {
    Options options = options_of(run, 3, "gathered");
    options.model.layers = layers;
    options.transfer.stash = "host";
    const auto [measured, pinned] = testing::measured_memory(options, 2);
    const MemoryContract contract = Trainer(options).contract();
    EXPECT_EQ(measured, std::vector<std::uint64_t>(3, contract.device_bytes));
    EXPECT_EQ(pinned, contract.pinned_bytes);
    options.device.feed = "whole";
    const std::uint64_t whole = Trainer(options).contract().device_bytes;
    EXPECT_GE(contract.device_bytes, whole);
    EXPECT_LE(contract.device_bytes, whole + 2 * 3 * 256);  // two slots
    peaks.insert(measured.begin(), measured.end());
  }
  EXPECT_EQ(peaks.size(), 1u);
}

TEST(Feed, APlanSaysHowWeightsComeAndWhy) {
  const SmallRun run;
  const auto says = [&](std::int64_t devices, const char* feed) {
    return Trainer(options_of(run, devices, feed)).contract().weight_feed;
  };
  EXPECT_EQ(says(1, "gathered"), "");
  EXPECT_EQ(says(2, "auto"), "each device copies all of a layer, since all are in the host's memory");
  EXPECT_EQ(says(2, "whole"), "each device copies all of a layer");
  EXPECT_EQ(says(3, "gathered"),
            "each device copies 1/3 of a layer and gathers the rest by copies from device to device");
  EXPECT_THROW(says(2, "halved"), BadInput);
}

// Law 8, at moments of each device that are drawn: the others, which wait for its slices, end with its error.
TEST(Feed, AFailureOfOneDeviceEndsTheGathersOfAll) {
  const SmallRun run;
  std::minstd_rand random(5);
  for (int attempt = 0; attempt < (testing::kInstrumented ? 12 : 60); ++attempt) {
    Options options = options_of(run, 3, "gathered");
    options.transfer.stash = attempt % 2 == 0 ? "host" : "device";
    options.transfer.prefetch = 1 + attempt % 3;
    options.device.execution = attempt % 5 == 0 ? "resident" : "relay";
    SCOPED_TRACE("attempt " + std::to_string(attempt));
    testing::expect_that_a_failure_ends_all(options, random);
  }
}

#ifdef L2L_FAULT_POINTS
TEST(FeedNegativeControl, ASliceThatNobodyBroughtIsNoticed) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16"}) {
    Options options = options_of(run, 3, "gathered");
    options.precision.compute = compute;
    const Record honest = record(options);
    arm_fault_point("weights.stale_slice");
    Record broken;
    try {
      broken = record(options);
    } catch (const Error&) {  // numbers that are none
    }
    arm_fault_point("");
    EXPECT_NE(broken, honest) << compute;
  }
}

TEST(FeedNegativeControl, AGatherThatDoesNotWaitForItsPeersIsNoticed) {
  const SmallRun run;
  FaultPlan slow;
  slow.copy_h2d_delay = std::chrono::microseconds(500);
  testing::expect_that_reading_early_is_noticed(options_of(run, 3, "gathered"), kSteps, slow);
}
#endif

}  // namespace
}  // namespace l2l::feed_law
