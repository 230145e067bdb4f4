// What blocks do with more and more device memory, where the link takes so long that nothing else decides.
#include "runtime/tuning/block_chain.h"

#include <gtest/gtest.h>

#include <set>

namespace l2l::runtime {
namespace {

constexpr int kBlocks = 6;

Options options() {
  Options options;
  options.model = {.layers = kBlocks, .hidden = 64, .heads = 4, .sequence = 64, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = 2};
  options.precision.gradients = "bf16";
  options.device.kind = "host";
  options.transfer.stash = "host";
  options.transfer.link_bandwidth = 10'000'000;
  options.eps.threads = 1;
  return options;
}

class BlockChainTest : public ::testing::Test {
 protected:
  Bytes arena_of(const Arrangement& arrangement) const {
    return RunPlan(options(), {}, Chosen{arrangement}, RunPlan::Limits::unchecked).arena->bytes();
  }
  std::optional<BlockChain::Candidate> shortest(Bytes device, const BlockChain::Alike& alike = {}) {
    constexpr Bytes kPlenty = Bytes{1} << 40;
    return chain_.shortest(alike, {device, kPlenty, kPlenty});
  }
  static int stashed_on_device(const Arrangement& arrangement) {
    return count_stashes(arrangement.places, StashPlace::device);
  }
  static int staying(const Arrangement& arrangement) { return count_staying(arrangement.places); }

  RunPlan plan_{options()};
  static inline Calibration calibration_{{}, ""};  // of all tests here
  StepCosts costs_{plan_, calibration_, /*may_measure=*/true};
  const TransferOptions open_;
  BlockChain chain_{plan_, open_, costs_};
};

TEST_F(BlockChainTest, MemoryGoesToWhatSavesLink) {
  const Bytes low = plan_.arena->bytes();
  const std::optional<BlockChain::Candidate> all = shortest(Bytes{1} << 40);
  ASSERT_TRUE(all);
  EXPECT_EQ(stashed_on_device(all->arrangement), kBlocks);
  // The last one stays while the head runs, without a place of its own.
  EXPECT_EQ(staying(all->arrangement), kBlocks - 1);
  const Bytes high = arena_of(all->arrangement);
  std::set<int> stashes, weights;
  std::optional<compiler::remat::Nanoseconds> last;
  for (Bytes i = 0; i <= 16; ++i) {
    const Bytes limit = low + (high - low) * i / 16;
    const std::optional<BlockChain::Candidate> candidate = shortest(limit);
    ASSERT_TRUE(candidate) << i;
    EXPECT_LE(arena_of(candidate->arrangement), limit) << i;
    if (last) {
      EXPECT_LE(candidate->time, *last) << i;
    }
    last = candidate->time;
    stashes.insert(stashed_on_device(candidate->arrangement));
    weights.insert(staying(candidate->arrangement));
  }
  EXPECT_EQ(*last, all->time);
  EXPECT_GE(stashes.size() + weights.size(), 6u) << "all or nothing";
  EXPECT_FALSE(shortest(low / 2));
}

TEST_F(BlockChainTest, WhatIsAlikeIsKept) {
  for (const StashPlace place : {StashPlace::host, StashPlace::device}) {
    for (const char* const policy : {"full", "none"}) {
      const std::optional<BlockChain::Candidate> candidate = shortest(Bytes{1} << 40, {place, policy});
      ASSERT_TRUE(candidate);
      EXPECT_EQ(stashed_on_device(candidate->arrangement), place == StashPlace::device ? kBlocks : 0);
      for (const BlockPolicy& block : candidate->arrangement.recomputation.policies) EXPECT_EQ(block.name, policy);
      EXPECT_GE(candidate->time, shortest(Bytes{1} << 40)->time);
    }
  }
}

TEST_F(BlockChainTest, WhatIsSetIsNotVaried) {
  TransferOptions set;
  set.stash = "host";
  set.resident_layers = 2;
  BlockChain chain(plan_, set, costs_);
  constexpr Bytes kPlenty = Bytes{1} << 40;
  const std::optional<BlockChain::Candidate> candidate = chain.shortest({}, {kPlenty, kPlenty, kPlenty});
  ASSERT_TRUE(candidate);
  EXPECT_EQ(stashed_on_device(candidate->arrangement), 0);
  EXPECT_EQ(staying(candidate->arrangement), 2);
}

// Layer inputs are two microbatches of 2 x 64 x 64 numbers.
TEST_F(BlockChainTest, CountsWhatCrossesTheLink) {
  TransferOptions set;
  set.resident_layers = 0;
  BlockChain chain(plan_, set, costs_);
  constexpr Bytes kPlenty = Bytes{1} << 40;
  const auto crossing = [&](StashPlace place) {
    return chain.shortest({place, "full"}, {kPlenty, kPlenty, kPlenty})->crossing;
  };
  const Bytes weights = 2 * kBlocks * plan_.model.wire_bytes(plan_.model.block(1));
  EXPECT_EQ(crossing(StashPlace::device), weights);
  EXPECT_EQ(crossing(StashPlace::host), weights + 2 * kBlocks * 2 * (2 * 64 * 64 * sizeof(float)));
  EXPECT_LT(shortest(kPlenty)->crossing, weights) << "some weights stay";
}

TEST(BlockChainCandidate, OfTwoThatTakeAsLongTheOneThatCopiesLessIsFirst) {
  const auto candidate = [](compiler::remat::Nanoseconds time, Bytes crossing) {
    return BlockChain::Candidate{{}, {}, time, crossing};
  };
  EXPECT_TRUE(candidate(5, 9) < candidate(6, 1));
  EXPECT_TRUE(candidate(5, 1) < candidate(5, 9));
  EXPECT_FALSE(candidate(5, 9) < candidate(5, 9));
}

}  // namespace
}  // namespace l2l::runtime
