// The linear network of chain.h under the two budgets of the paper's analysis. That B counts all bytes at once, the new
// tensor included, and is rounded up: 2 sqrt(512) = 46, log2(512) = 9.
#include "tests/compiler/remat/dtr/chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "compiler/remat/dtr/simulate.h"

namespace l2l::compiler::remat::dtr {
namespace {

constexpr Index kLayers = 512;

Bytes root_budget(Index layers) { return static_cast<Bytes>(std::ceil(2 * std::sqrt(layers))); }
Bytes log_budget(Index layers) { return static_cast<Bytes>(std::ceil(std::log2(layers))); }

Time extra_ops(Index layers, Bytes budget, Score heuristic) {
  const Trace trace = ChainBuilder().build(layers);
  Options options;
  options.budget = budget;
  options.heuristic = heuristic;
  const Simulation simulation = simulate(trace, options);
  EXPECT_EQ(simulation.failure, Failure::none);
  EXPECT_LE(simulation.peak, budget);
  const Time extra = simulation.clock - 1 - trace.time;
  EXPECT_EQ(static_cast<Time>(simulation.rematerializations), extra);  // ops of one unit
  std::printf("%u layers, budget %llu, %s: %lld extra ops\n", layers, static_cast<unsigned long long>(budget),
              score_names()[static_cast<int>(heuristic)].c_str(), static_cast<long long>(extra));
  return extra;
}

TEST(Chain, StaysWithinThePublishedFigures) {
  EXPECT_LE(extra_ops(kLayers, root_budget(kLayers), Score::dtr_eq), 485);
  EXPECT_LE(extra_ops(kLayers, log_budget(kLayers), Score::dtr_eq), 2255);
  EXPECT_LE(extra_ops(kLayers, root_budget(kLayers), Score::dtr), 485);
  EXPECT_LE(extra_ops(kLayers, log_budget(kLayers), Score::dtr), 2255);
}

// The theorem: O(n) extra ops in 2 sqrt(n) bytes, and n log n is the order in log2(n).
TEST(Chain, GrowsAsTheTheoremSays) {
  for (const Index layers : {64u, 128u, 256u, 512u, 1024u}) {
    EXPECT_LE(extra_ops(layers, root_budget(layers), Score::dtr_eq), layers);
    EXPECT_LE(extra_ops(layers, log_budget(layers), Score::dtr_eq), layers * std::log2(layers));
  }
}

// What does not know the cost of evicted neighbours cannot do it: the bounds are not empty.
TEST(ChainNegativeControl, OtherHeuristicsDoNot) {
  for (const Score other : {Score::local, Score::lru, Score::size, Score::msps}) {
    EXPECT_GT(extra_ops(kLayers, root_budget(kLayers), other), 485);
    EXPECT_GT(extra_ops(kLayers, log_budget(kLayers), other), 2255);
  }
}

// Backward needs a forward tensor, the gradient before and the new one at once.
TEST(Chain, FitsInThreeBytesAndNotInTwo) {
  Options options;
  options.budget = 2;
  EXPECT_EQ(simulate(ChainBuilder().build(8), options).failure, Failure::out_of_memory);
  options.budget = 3;
  EXPECT_EQ(simulate(ChainBuilder().build(8), options).failure, Failure::none);
  options.budget = 0;
  EXPECT_EQ(simulate(ChainBuilder().build(8), options).peak, 8u);
}

}  // namespace
}  // namespace l2l::compiler::remat::dtr
