#include "compiler/memory/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/memory/planner.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

Problem any_problem(Random& random, int i) {
  const Bytes alignment = Bytes{1} << random() % 4;
  Problem problem = i % 2 ? random_problem(random, uniform(random, 0, 40), 30, 50, alignment)
                          : random_streams(random, uniform(random, 0, 40), 1 + random() % 3, 40, 50, alignment);
  if (i % 3 == 0) add_random_groups(random, problem);
  return problem;
}

// Pins some tensors where a plan has them.
void pin(Random& random, Problem& problem) {
  const Plan anywhere = plan_by_sweep(problem);
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    if (random() % 8 == 0) problem.tensors[t].offset = anywhere.offsets[t];
  }
}

// The portfolio places by it before the others, and does not repeat it.
TEST(Greedy, TheDefaultIsTheFirstAndStandsOnce) {
  std::vector<std::string> names;
  for (const Greedy& greedy : all_greedy()) names.push_back(name_of(greedy));
  EXPECT_EQ(names.front(), name_of(Greedy{}));
  EXPECT_EQ(std::count(names.begin(), names.end(), name_of(Greedy{})), 1);
}

TEST(Greedy, AllOfThemArePlans) {
  Random random(1);
  for (int i = 0; i < 1500; ++i) {
    Problem problem = any_problem(random, i);
    if (i % 5 == 0) pin(random, problem);
    ASSERT_NO_THROW(check(problem));
    const Blocks blocks(problem);
    for (const Greedy& greedy : all_greedy()) {
      const Placement placement = place(blocks, greedy);
      const Plan found = blocks.plan(placement.offsets);
      ASSERT_EQ(validate(problem, found), "") << name_of(greedy);
      const Placement compacted = compact(blocks, placement);
      ASSERT_EQ(validate(problem, blocks.plan(compacted.offsets)), "") << name_of(greedy);
      ASSERT_TRUE(blocks.grouped() || compacted.footprint <= placement.footprint) << name_of(greedy);
    }
    ASSERT_EQ(validate(problem, plan_by_sweep(problem)), "");
  }
}

TEST(Greedy, TheSweepSharesMemoryAlsoOnStreams) {
  Random random(2);
  const Problem phases = two_phases(random, 500);
  EXPECT_EQ(plan_by_sweep(phases).footprint, live_load(phases));
  for (int i = 0; i < 10; ++i) {
    const Problem problem = random_streams(random, 1000, 2 + random() % 3, 10'000, 1000, 1);
    Bytes all = 0;
    for (const Tensor& tensor : problem.tensors) all += tensor.size;
    const Plan found = plan_by_sweep(problem);
    EXPECT_EQ(validate(problem, found), "");
    EXPECT_LT(found.footprint, all * 3 / 4);
  }
}

TEST(Greedy, BestFitPrefersTheTightestGap) {
  // Placed in order of size. At time 1 'wide' and 'narrow' are dead and leave gaps of 50 and 30 bytes between walls.
  const Problem problem = intervals(
      1, {{"wide", 0, 1, 50}, {"wall", 0, 2, 45}, {"narrow", 0, 1, 30}, {"roof", 0, 2, 28}, {"late", 1, 2, 20}});
  const Blocks blocks(problem);
  const Plan best = blocks.plan(place(blocks, {Method::gaps, Order::size, Fit::best}).offsets);
  EXPECT_EQ(best.offsets, (std::vector<Bytes>{0, 50, 95, 125, 95}));
  const Plan first = blocks.plan(place(blocks, {Method::gaps, Order::size, Fit::first}).offsets);
  EXPECT_EQ(first.offsets, (std::vector<Bytes>{0, 50, 95, 125, 0}));
}

TEST(Greedy, ManyObjectsShareWhatSingleObjectsStack) {
  // 'left' and 'right' interfere; both are younger than 'large' and fit side by side into its place.
  const Problem problem = intervals(1, {{"large", 0, 1, 100}, {"left", 1, 2, 60}, {"right", 1, 2, 40}});
  const Blocks blocks(problem);
  EXPECT_EQ(place(blocks, {Method::many_objects, Order::size, Fit::best}).footprint, 100u);
  EXPECT_EQ(place(blocks, {Method::single_object, Order::size, Fit::best}).footprint, 140u);
}

TEST(Greedy, ContiguousTensorsInterlock) {
  // The tensors of both groups interfere crosswise, never at the same place of the group: the extents are free to lie
  // over each other.
  Problem problem = intervals(1, {{"a0", 0, 1, 10}, {"a1", 1, 2, 10}, {"b0", 1, 2, 10}, {"b1", 0, 1, 10}});
  problem.groups = {{0, 1}, {2, 3}};
  EXPECT_EQ(plan(problem).footprint, 20u);
  EXPECT_EQ(validate(problem, plan(problem)), "");
}

}  // namespace
}  // namespace l2l::compiler::memory
