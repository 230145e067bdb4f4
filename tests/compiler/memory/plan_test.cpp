#include "compiler/memory/planner.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

// The smallest footprint of all plans. Some order of first fit reaches it: sort an optimal plan by offset, then each
// tensor's lowest free place is at or below the one it has there.
Bytes optimum(const Problem& problem) {
  std::vector<std::size_t> order(problem.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Bytes best = ~Bytes{0};
  do {
    std::vector<Bytes> offsets(order.size(), 0);
    Bytes footprint = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Tensor& tensor = problem.tensors[order[k]];
      Bytes offset = 0;
      const auto free = [&] {
        for (std::size_t j = 0; j < k; ++j) {
          const Tensor& other = problem.tensors[order[j]];
          const bool apart = offset + tensor.size <= offsets[order[j]] || offsets[order[j]] + other.size <= offset;
          if (!apart && !may_share(problem, order[k], order[j])) return false;
        }
        return true;
      };
      while (!free()) offset += problem.alignment;
      offsets[order[k]] = offset;
      footprint = std::max(footprint, offset + tensor.size);
    }
    best = std::min(best, footprint);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Planner, StaysBetweenTheOptimumAndNeighbourhoodOfIt) {
  Random random(1);
  int optimal = 0;
  constexpr int kProblems = 400;
  for (int i = 0; i < kProblems; ++i) {
    const Problem problem = random_problem(random, uniform(random, 1, 6), 6, 9, i % 2 ? 1 : 4);
    const Plan found = plan(problem);
    ASSERT_EQ(validate(problem, found), "");
    const Bytes best = optimum(problem);
    ASSERT_GE(best, live_load(problem));
    ASSERT_GE(found.footprint, best) << "no valid plan is that small";
    ASSERT_LE(found.footprint, 2 * best);
    optimal += found.footprint == best;
  }
  EXPECT_GE(optimal, kProblems * 17 / 20);
}

TEST(Planner, ReusesMemoryOfTheDead) {
  // a and c never interfere; b interferes with both.
  const Problem problem = intervals(1, {{"a", 0, 2, 100}, {"b", 1, 3, 50}, {"c", 2, 4, 100}});
  EXPECT_EQ(plan(problem).footprint, 150u);
}

TEST(Planner, LargeProblemsAreValidAndDeterministic) {
  Random random(2);
  const Problem problem = random_problem(random, 600, 120, 1 << 20, 64);
  const Plan first = plan(problem), second = plan(problem);
  EXPECT_EQ(first.offsets, second.offsets);
  EXPECT_EQ(validate(problem, first), "");
  EXPECT_GE(first.footprint, live_load(problem));
  EXPECT_LE(first.footprint, live_load(problem) * 5 / 4);
}

TEST(Planner, EmptyProblemsAndEmptyTensors) {
  EXPECT_EQ(plan({}).footprint, 0u);
  EXPECT_EQ(validate({}, plan({})), "");
  const Problem problem =
      intervals(64, {{"nothing", 0, 9, 0}, {"something", 0, 9, 64}, {"no time", 3, 3, 8}, {"nothing", 4, 5, 0}});
  const Plan found = plan(problem);
  EXPECT_EQ(validate(problem, found), "");
  EXPECT_EQ(found.footprint, 64u);
  EXPECT_EQ(live_load(problem), 64u);
}

}  // namespace
}  // namespace l2l::compiler::memory
