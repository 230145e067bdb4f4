#include "compiler/memory/bounds.h"

#include <gtest/gtest.h>

#include "compiler/memory/antichain.h"
#include "compiler/memory/interference.h"
#include "compiler/memory/planner.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

bool lives(const Problem& problem, Index t) { return problem.tensors[t].size > 0 && !may_share(problem, t, t); }

// Of all subsets.
Bytes heaviest(const Problem& problem) {
  Bytes best = 0;
  for (std::uint32_t subset = 0; subset < 1u << problem.tensors.size(); ++subset) {
    Bytes sum = 0;
    for (Index a = 0; a < problem.tensors.size() && sum != ~Bytes{0}; ++a) {
      if (!(subset >> a & 1)) continue;
      sum += problem.tensors[a].size;
      bool together = lives(problem, a);
      for (Index b = 0; b < a; ++b) together = together && (!(subset >> b & 1) || !may_share(problem, a, b));
      if (!together) sum = ~Bytes{0};
    }
    if (sum != ~Bytes{0}) best = std::max(best, sum);
  }
  return best;
}

TEST(Bounds, TheAntichainIsTheHeaviestOfAllSubsets) {
  Random random(1);
  int shared = 0;
  for (int i = 0; i < 4000; ++i) {
    const Problem problem = random_streams(random, uniform(random, 0, 11), 1 + random() % 4, 16, 50, 1);
    std::vector<Bytes> weights;
    Bytes sum = 0, all = 0;
    for (const Tensor& tensor : problem.tensors) weights.push_back(tensor.size);
    const std::vector<Index> antichain = heaviest_antichain(problem, live_tensors(problem), weights).value();
    for (const Index a : antichain) {
      ASSERT_TRUE(lives(problem, a));
      for (const Index b : antichain) ASSERT_TRUE(a == b || !may_share(problem, a, b));
      sum += problem.tensors[a].size;
    }
    for (const Index t : live_tensors(problem)) all += weights[t];
    ASSERT_EQ(sum, heaviest(problem)) << i;
    ASSERT_LE(live_load(problem), sum);
    ASSERT_TRUE(problem.streams > 1 || live_load(problem) == sum);
    shared += sum < all;
  }
  EXPECT_GT(shared, 2000);
}

// What a certificate claims, looked at without the solver.
void expect_proof(const Problem& problem, const Bound& bound) {
  Bytes sum = 0;
  for (const Index a : bound.tensors) {
    sum += problem.tensors[a].size;
    for (const Index b : bound.tensors) {
      ASSERT_TRUE(bound.certificate == Certificate::extent || a == b || !may_share(problem, a, b));
    }
  }
  ASSERT_TRUE(bound.certificate == Certificate::extent || problem.alignment > 1 || sum == bound.bytes);
  ASSERT_LE(sum, bound.bytes);
}

TEST(Bounds, NoPlanIsSmaller) {
  Random random(2);
  int met = 0;
  for (int i = 0; i < 600; ++i) {
    Problem problem = random_streams(random, uniform(random, 1, 9), 1 + random() % 3, 12, 9, Bytes{1} << random() % 4);
    if (i % 3 == 0) add_random_groups(random, problem);
    if (i % 5 == 0) problem.tensors[0].offset = 8 * (random() % 9);
    if (i % 5 == 0) problem.groups.clear();
    const Bound bound = lower_bound(problem);
    expect_proof(problem, bound);
    expect_proof(problem, quick_bound(problem));
    ASSERT_LE(quick_bound(problem).bytes, bound.bytes);
    const Plan found = plan(problem);
    ASSERT_GE(found.footprint, bound.bytes) << i << " " << name_of(bound.certificate);
    met += found.footprint == bound.bytes;
  }
  EXPECT_GT(met, 400) << "bounds far below every plan say nothing";
}

std::vector<Bytes> sizes_of(const Problem& problem) {
  std::vector<Bytes> sizes;
  for (const Tensor& tensor : problem.tensors) sizes.push_back(tensor.size);
  return sizes;
}

// The second phase follows the first pair by pair, which would take a quarter of a square of edges.
TEST(Bounds, WithTooManyPairsAreTheQuickOnes) {
  Random random(4);
  const std::int64_t few = 100, many = 2300;
  ASSERT_GT(static_cast<std::size_t>(many * many), kMostCovers);
  for (const std::int64_t count : {few, many}) {
    const Problem problem = two_phases(random, count);
    const bool found = heaviest_antichain(problem, live_tensors(problem), sizes_of(problem)).has_value();
    EXPECT_EQ(found, count == few);
    const Bound bound = lower_bound(problem);
    EXPECT_EQ(bound.certificate, found ? Certificate::antichain : Certificate::live_load);
    EXPECT_EQ(bound.bytes, live_load(problem));  // which is also the heaviest antichain here
  }
}

TEST(Bounds, AreTheQuickOnesWhenStopped) {
  Random random(5);
  const Problem problem = random_streams(random, 3000, 3, 2000, 1000, 1);
  const std::vector<Index> tensors = live_tensors(problem);
  std::size_t asked = 0, most = ~std::size_t{0};
  const auto stop = [&] { return ++asked > most; };
  ASSERT_TRUE(heaviest_antichain(problem, tensors, sizes_of(problem), stop));
  EXPECT_GT(asked, tensors.size() + 1) << "the flow does not ask";
  for (const std::size_t last : {std::size_t{0}, tensors.size() / 2, tensors.size() + 1}) {
    asked = 0;
    most = last;
    EXPECT_FALSE(heaviest_antichain(problem, tensors, sizes_of(problem), stop)) << last;
    EXPECT_EQ(asked, last + 1);
  }
  const Bound quick = quick_bound(problem), stopped = lower_bound(problem, [] { return true; });
  EXPECT_EQ(stopped.bytes, quick.bytes);
  EXPECT_EQ(stopped.certificate, Certificate::live_load);
  EXPECT_GT(lower_bound(problem).bytes, quick.bytes);
}

TEST(Bounds, CountAlignment) {
  const Problem problem = intervals(64, {{"a", 0, 2, 65}, {"b", 1, 3, 1}, {"c", 0, 3, 1}});
  const Bound bound = lower_bound(problem);
  EXPECT_EQ(bound.bytes, 64u + 64u + 65u);
  EXPECT_EQ(plan(problem).footprint, bound.bytes);
  EXPECT_EQ(bound.tensors, (std::vector<Index>{0, 1, 2}));
}

TEST(Bounds, Extents) {
  Problem problem = intervals(1, {{"a", 0, 1, 60}, {"b", 1, 2, 70}, {"pinned", 2, 3, 10}});
  EXPECT_EQ(lower_bound(problem).bytes, 70u);
  problem.groups = {{0, 1}};
  EXPECT_EQ(lower_bound(problem).bytes, 130u);
  EXPECT_EQ(lower_bound(problem).certificate, Certificate::extent);
  EXPECT_EQ(plan(problem).footprint, 130u);
  problem.tensors[2].offset = 200;
  EXPECT_EQ(lower_bound(problem).bytes, 210u);
  EXPECT_EQ(plan(problem).footprint, 210u);
}

TEST(Bounds, OfOneStreamAreTheLargestLoadOfAMomentOrTheLargestTensor) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const Problem problem = random_problem(random, uniform(random, 0, 12), 10, 50, 1);
    Bytes expected = live_load(problem);
    for (const Tensor& tensor : problem.tensors) expected = std::max(expected, tensor.size);
    ASSERT_EQ(lower_bound(problem).bytes, expected);
  }
}

}  // namespace
}  // namespace l2l::compiler::memory
