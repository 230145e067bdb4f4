// What blocks do with more and more device memory, where the link takes so long that nothing else decides.
#include "runtime/tuning/proposals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "core/workers.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/run_plan.h"
#include "tests/support/instrumented.h"

namespace l2l::runtime {
namespace {

constexpr int kBlocks = 6;

Options options() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = kBlocks, .hidden = 64, .heads = 4, .sequence = 64, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = 2};
  options.precision.gradients = "bf16";
  options.device.kind = "host";
  options.transfer.stash = "host";
  options.transfer.link_bandwidth = 10'000'000;
  options.eps.threads = 1;
  return options;
}

constexpr Bytes kPlenty = Bytes{1} << 40;

// The parts of options() with these: open to choice, but for what `transfer` sets.
RunParts parts_with(const std::string& stash = "auto", std::int64_t resident_layers = TransferOptions::kChosen) {
  RunParts parts = make_parts(resolve(options()));
  parts.options.transfer.stash = stash;
  parts.options.transfer.resident_layers = resident_layers;
  return parts;
}

class BlockChainTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const RunParts parts = parts_with();
    Calibration calibration({}, "");
    MeasuringSession session({.seconds = Measuring::kThorough});
    StepCosts costs(parts, calibration, &session);
    candidates_ = block_candidates(parts, costs);
  }
  Bytes arena_of(const Decisions& decisions) const { return RunPlan(parts_, decisions).arena->bytes(); }
  std::optional<Proposal> shortest(Bytes device, const Constraint& constraint = {}) {
    return runtime::shortest(parts_, candidates_, constraint, {device, kPlenty, kPlenty});
  }
  static int stashed_on_device(const Decisions& decisions) {
    return count_stashes(decisions.placements, StashPlace::device);
  }
  static int staying(const Decisions& decisions) { return count_staying(decisions.placements); }

  static inline Candidates candidates_;  // measured once
  const RunParts parts_ = parts_with();
};

TEST_F(BlockChainTest, MemoryGoesToWhatSavesLink) {
  L2L_NEEDS_TRUE_TIMES();
  const Bytes low = arena_bytes(parts_, least_decisions(parts_));
  const std::optional<Proposal> all = shortest(kPlenty);
  ASSERT_TRUE(all);
  EXPECT_EQ(stashed_on_device(all->decisions), kBlocks);
  // The last one stays while the head runs, without a place of its own.
  EXPECT_EQ(staying(all->decisions), kBlocks - 1);
  const Bytes high = arena_of(all->decisions);
  std::set<int> stashes, weights;
  std::optional<compiler::remat::Nanoseconds> last;
  for (Bytes i = 0; i <= 16; ++i) {
    const Bytes limit = low + (high - low) * i / 16;
    const std::optional<Proposal> proposal = shortest(limit);
    ASSERT_TRUE(proposal) << i;
    EXPECT_LE(arena_of(proposal->decisions), limit) << i;
    if (last) {
      EXPECT_LE(proposal->time, *last) << i;
    }
    last = proposal->time;
    stashes.insert(stashed_on_device(proposal->decisions));
    weights.insert(staying(proposal->decisions));
  }
  EXPECT_EQ(*last, all->time);
  EXPECT_GE(stashes.size() + weights.size(), 6u) << "all or nothing";
  EXPECT_FALSE(shortest(low / 2));
}

TEST_F(BlockChainTest, ConstraintsAreKept) {
  for (const StashPlace place : {StashPlace::host, StashPlace::device}) {
    for (const char* const policy : {"full", "none"}) {
      const std::optional<Proposal> proposal = shortest(kPlenty, {place, policy});
      ASSERT_TRUE(proposal);
      EXPECT_EQ(stashed_on_device(proposal->decisions), place == StashPlace::device ? kBlocks : 0);
      for (const BlockPolicy& block : proposal->decisions.policies) EXPECT_EQ(block.name, policy);
      EXPECT_GE(proposal->time, shortest(kPlenty)->time);
    }
  }
}

TEST_F(BlockChainTest, WhatIsSetIsNotVaried) {
  const RunParts set = parts_with("host", 2);
  const std::optional<Proposal> proposal = runtime::shortest(set, candidates_, {}, {kPlenty, kPlenty, kPlenty});
  ASSERT_TRUE(proposal);
  EXPECT_EQ(stashed_on_device(proposal->decisions), 0);
  EXPECT_EQ(staying(proposal->decisions), 2);
}

// Layer inputs are two microbatches of 2 x 64 x 64 numbers.
TEST_F(BlockChainTest, CountsWhatCrossesTheLink) {
  const RunParts set = parts_with("auto", 0);
  const auto crossing = [&](StashPlace place) {
    return runtime::shortest(set, candidates_, {place, "full"}, {kPlenty, kPlenty, kPlenty})->crossing;
  };
  const Bytes weights = 2 * kBlocks * parts_.model.wire_bytes(parts_.model.block(1));
  EXPECT_EQ(crossing(StashPlace::device), weights);
  EXPECT_EQ(crossing(StashPlace::host), weights + 2 * kBlocks * 2 * (2 * 64 * 64 * sizeof(float)));
  L2L_NEEDS_TRUE_TIMES();
  EXPECT_LT(shortest(kPlenty)->crossing, weights) << "some weights stay";
}

// One program for all blocks, with times that are set here: in ms, of a microbatch (there are two) or a block's
// weights.
struct SetTimes {
  double forward, backward, input_to_host, input_to_device, weights, gradients;
};
Candidates with_times(const RunParts& parts, const SetTimes& ms) {
  const auto cost = [](double ms) { return Cost{ms * 1e-3, available_cores() * ms * 1e-3}; };  // on all cores
  BlockCandidates type;
  for (int block = 1; block <= kBlocks; ++block) type.blocks.push_back(block);
  type.programs.push_back({.policy = uniform_policy(parts.model, compiler::remat::Policy::full).policies[0],
                           .forward = cost(ms.forward),
                           .backward = cost(ms.backward)});
  type.input_copy = {ms.input_to_host * 1e-3, ms.input_to_device * 1e-3};
  type.wire_seconds = ms.weights * 1e-3;
  type.gradient_seconds = ms.gradients * 1e-3;
  return {.types = {type}, .scratch = {}};
}

// ms that all blocks are predicted to take, weights and all.
double predicted(const RunParts& parts, const SetTimes& times, StashPlace stash) {
  const auto proposal = shortest(parts, with_times(parts, times), {stash, "full"}, {kPlenty, kPlenty, kPlenty});
  return static_cast<double>(proposal->time) / 1e6 / kBlocks;
}

TEST(BlockChainTimes, WithALinkOfItsOwnAVisitTakesAsLongAsTheSlowestOfComputeAndCopies) {
  const RunParts parts = parts_with("auto", 0);  // the link is throttled
  const SetTimes times{3, 6, 10, 20, 1, 2};
  EXPECT_NEAR(predicted(parts, times, StashPlace::host), (2 * 10) + (1 + 2 * 20), 1e-5);
  EXPECT_NEAR(predicted(parts, times, StashPlace::device), 2 * 3 + 2 * 6, 1e-5);
  EXPECT_NEAR(predicted(parts, {3, 6, 1, 1, 30, 50}, StashPlace::host), 30 + 50, 1e-5);
}

TEST(BlockChainTimes, WhereCopiesTakeTheCoresThatComputeTheyAddToIt) {
  RunParts parts = parts_with("auto", 0);
  parts.options.transfer.link_bandwidth = 0;
  const double forward = 2 * 3, backward = 2 * 6, cores = available_cores();
  const SetTimes times{3, 6, 10, 20, 1, 2};
  EXPECT_NEAR(predicted(parts, times, StashPlace::host),
              forward + (2 * 10 + 1) / cores + backward + (2 * 20 + 1) / cores, 1e-5);
  EXPECT_NEAR(predicted(parts, times, StashPlace::device), forward + 1 / cores + backward + 1 / cores, 1e-5);
}

// Memory for the stash of some: the others' crosses the link, and is counted beside the weights.
TEST(BlockChainTimes, WhatCrossesTheLinkIsCountedForEveryShare) {
  const RunParts parts = parts_with("auto", 0);
  const Candidates candidates = with_times(parts, {3, 6, 10, 20, 1, 2});
  const Bytes stash = parts.model.activation_bytes();
  std::set<int> counts;
  // Less and less memory, until nothing fits.
  for (Bytes limit = RunPlan(parts, least_decisions(parts)).arena->bytes(); limit > stash; limit -= stash) {
    const std::optional<Proposal> proposal = shortest(parts, candidates, {}, {limit, kPlenty, kPlenty});
    if (!proposal) break;
    const int on_host = count_stashes(proposal->decisions.placements, StashPlace::host);
    EXPECT_EQ(proposal->crossing, 2 * kBlocks * parts.model.wire_bytes(parts.model.block(1)) +
                                      static_cast<Bytes>(on_host) * 2 * 2 * (2 * 64 * 64 * sizeof(float)));
    counts.insert(on_host);
  }
  EXPECT_GT(counts.size(), 2u) << "all or nothing";
}

TEST(BlockChainCandidate, OfTwoThatTakeAsLongTheOneThatCopiesLessIsFirst) {
  const auto proposal = [](compiler::remat::Nanoseconds time, Bytes crossing) {
    return Proposal{{}, {}, time, crossing};
  };
  EXPECT_TRUE(proposal(5, 9) < proposal(6, 1));
  EXPECT_TRUE(proposal(5, 1) < proposal(5, 9));
  EXPECT_FALSE(proposal(5, 9) < proposal(5, 9));
}

// Against all subsets of up to 12 values.
TEST(BlockChainCandidate, NoSetSavesMoreThanAMixtureOfNeighboursInTheSets) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    compiler::Graph forward;
    std::vector<SavableValue> values;
    for (std::size_t count = 1 + random() % 12; values.size() < count;) {
      const auto elements = static_cast<std::int64_t>(1 + random() % 1000);
      forward.values.push_back({.name = "", .shape = {elements}});
      values.push_back({static_cast<compiler::ValueId>(values.size()), static_cast<double>(random() % 1000)});
    }
    struct Sum {
      double bytes = 0, saved = 0;
    };
    const auto sum_of = [&](const std::vector<compiler::ValueId>& set) {
      Sum sum;
      for (const compiler::ValueId value : set) {
        sum.bytes += static_cast<double>(forward.value(value).bytes());
        sum.saved += values[static_cast<std::size_t>(value)].recomputed;
      }
      return sum;
    };
    std::vector<Sum> proposed{{}};
    for (const std::vector<compiler::ValueId>& set : sets_to_keep(forward, values)) {
      ASSERT_TRUE(std::is_sorted(set.begin(), set.end()));
      if (sum_of(set).bytes > proposed.back().bytes) proposed.push_back(sum_of(set));
    }
    std::vector<compiler::ValueId> all(values.size());
    std::iota(all.begin(), all.end(), 0);
    proposed.push_back(sum_of(all));  // what the policy "none" keeps
    ASSERT_EQ(proposed.size(), values.size() + 1);
    for (unsigned subset = 1; subset < 1u << values.size(); ++subset) {
      std::vector<compiler::ValueId> set;
      for (const compiler::ValueId value : all) {
        if (subset >> value & 1) set.push_back(value);
      }
      const Sum sum = sum_of(set);
      std::size_t next = 1;
      while (proposed[next].bytes < sum.bytes) ++next;
      const Sum &low = proposed[next - 1], &high = proposed[next];
      const double share = (sum.bytes - low.bytes) / (high.bytes - low.bytes);
      ASSERT_LE(sum.saved, low.saved + share * (high.saved - low.saved) + 1e-6) << i;
    }
  }
}

// A run takes what it is given; else a quarter of a host's memory, but never less than it can do with.
TEST(MemoryLimits, OfAHostAreAQuarterOfItsFreeMemoryUnlessSet) {
  RunParts parts = parts_with();
  const MemoryLimits unset = memory_limits(parts);
  EXPECT_TRUE(unset.leave_enough);
  EXPECT_EQ(unset.device, unset.together);
  EXPECT_EQ(unset.host, unset.together);
  parts.options.device.memory = 2 * unset.device;
  const MemoryLimits device = memory_limits(parts);
  EXPECT_EQ(device.device, parts.options.device.memory);
  EXPECT_EQ(device.together / 4, device.host);
  parts.options.device.memory = 0;
  parts.options.eps.stash_memory = 2 * unset.host;
  const MemoryLimits host = memory_limits(parts);
  EXPECT_EQ(host.host, parts.options.eps.stash_memory);
  EXPECT_EQ(host.together / 4, host.device);
  parts.options.device.memory = 1;
  EXPECT_FALSE(memory_limits(parts).leave_enough);

  Options large = options();
  RunParts needs_more = parts_with();
  while (arena_bytes(needs_more, least_decisions(needs_more)) < unset.device / 3 * 4) {
    large.batch.micro_batch *= 2;
    needs_more = make_parts(resolve(large));
  }
  EXPECT_GE(memory_limits(needs_more).device, arena_bytes(needs_more, least_decisions(needs_more)));
}

}  // namespace
}  // namespace l2l::runtime
