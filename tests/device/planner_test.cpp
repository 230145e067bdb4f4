#include "device/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "l2l/errors.h"

namespace l2l::device::planner {
namespace {

using Random = std::mt19937_64;

std::int64_t uniform(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

Problem random_problem(Random& random, std::int64_t tensors, std::int64_t times, std::int64_t largest,
                       Bytes alignment) {
  Problem problem;
  problem.alignment = alignment;
  for (std::int64_t i = 0; i < tensors; ++i) {
    const std::int64_t lower = uniform(random, 0, times - 1);
    problem.tensors.push_back({"t" + std::to_string(i), lower, uniform(random, lower, times),
                               static_cast<Bytes>(uniform(random, 0, largest))});
  }
  return problem;
}

bool together(const Tensor& a, const Tensor& b, std::int64_t times) {
  for (std::int64_t time = 0; time < times; ++time) {
    if (a.lower <= time && time < a.upper && b.lower <= time && time < b.upper) return true;
  }
  return false;
}

// The smallest footprint of all plans. Some order of first fit reaches it: sort an optimal plan by offset, then each
// tensor's lowest free place is at or below the one it has there.
Bytes optimum(const Problem& problem, std::int64_t times) {
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
          if (!apart && together(tensor, other, times)) return false;
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
    const Bytes best = optimum(problem, 6);
    ASSERT_GE(best, live_load(problem));
    ASSERT_GE(found.footprint, best) << "no valid plan is that small";
    ASSERT_LE(found.footprint, 2 * best);
    optimal += found.footprint == best;
  }
  EXPECT_GE(optimal, kProblems * 17 / 20);
}

TEST(Planner, ReusesMemoryOfTheDead) {
  // a and c never meet; b meets both.
  const Problem problem{{{"a", 0, 2, 100}, {"b", 1, 3, 50}, {"c", 2, 4, 100}}, 1};
  EXPECT_EQ(plan(problem).footprint, 150u);
}

TEST(Planner, PrefersTheTightestGap) {
  // Placed in order of size. At time 1 'wide' and 'narrow' are dead and leave gaps of 50 and 30 bytes between walls.
  const Problem problem{
      {{"wide", 0, 1, 50}, {"wall", 0, 2, 45}, {"narrow", 0, 1, 30}, {"roof", 0, 2, 28}, {"late", 1, 2, 20}}, 1};
  const Plan found = plan(problem);
  EXPECT_EQ(validate(problem, found), "");
  EXPECT_EQ(found.offsets, (std::vector<Bytes>{0, 50, 95, 125, 95}));
  EXPECT_EQ(found.footprint, 153u);
}

TEST(Planner, LargeProblemsAreValidAndDeterministic) {
  Random random(2);
  const Problem problem = random_problem(random, 1500, 300, 1 << 20, 64);
  const Plan first = plan(problem), second = plan(problem);
  EXPECT_EQ(first.offsets, second.offsets);
  EXPECT_EQ(validate(problem, first), "");
  EXPECT_GE(first.footprint, live_load(problem));
  EXPECT_LE(first.footprint, live_load(problem) * 5 / 4);
}

TEST(Planner, EmptyProblemsAndEmptyTensors) {
  EXPECT_EQ(plan({}).footprint, 0u);
  EXPECT_EQ(validate({}, plan({})), "");
  const Problem problem{{{"nothing", 0, 9, 0}, {"something", 0, 9, 64}, {"no time", 3, 3, 8}, {"nothing", 4, 5, 0}}};
  const Plan found = plan(problem);
  EXPECT_EQ(validate(problem, found), "");
  EXPECT_EQ(found.footprint, 64u);
  EXPECT_EQ(live_load(problem), 64u);
}

TEST(Planner, RefusesWhatCannotBeCounted) {
  EXPECT_THROW(plan({{{"a", 0, 1, 8}}, 3}), BadInput);
  EXPECT_THROW(plan({{{"a", 0, 1, 8}}, 0}), BadInput);
  const Problem huge{{{"a", 0, 1, ~Bytes{0} - 100}, {"b", 0, 1, 200}}, 1};
  EXPECT_THROW(plan(huge), BadInput);
  EXPECT_THROW(live_load(huge), BadInput);
}

TEST(LiveLoad, EqualsASumOverEveryMoment) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const Problem problem = random_problem(random, uniform(random, 0, 12), 10, 50, 1);
    Bytes expected = 0;
    for (std::int64_t time = 0; time < 10; ++time) {
      Bytes sum = 0;
      for (const Tensor& t : problem.tensors) sum += t.lower <= time && time < t.upper ? t.size : 0;
      expected = std::max(expected, sum);
    }
    ASSERT_EQ(live_load(problem), expected);
  }
}

// Whether a plan is right, by a map of bytes at every moment.
bool right(const Problem& problem, const Plan& plan, std::int64_t times) {
  Bytes highest = 0;
  for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
    if (plan.offsets[i] % problem.alignment != 0) return false;
    highest = std::max(highest, plan.offsets[i] + problem.tensors[i].size);
  }
  for (std::int64_t time = 0; time < times; ++time) {
    std::vector<bool> taken(highest, false);
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
      if (time < problem.tensors[i].lower || time >= problem.tensors[i].upper) continue;
      for (Bytes byte = plan.offsets[i]; byte < plan.offsets[i] + problem.tensors[i].size; ++byte) {
        if (taken[byte]) return false;
        taken[byte] = true;
      }
    }
  }
  return plan.footprint == highest;
}

TEST(Validator, AgreesWithAMapOfBytes) {
  Random random(4);
  int good = 0, bad = 0;
  for (int i = 0; i < 100000; ++i) {
    const Problem problem = random_problem(random, uniform(random, 1, 6), 6, 5, Bytes{1} << uniform(random, 0, 1));
    Plan candidate = plan(problem);
    for (int change = static_cast<int>(uniform(random, 0, 3)); change > 0; --change) {
      candidate.offsets[random() % candidate.offsets.size()] = static_cast<Bytes>(uniform(random, 0, 12));
    }
    candidate.footprint = 0;
    for (std::size_t t = 0; t < candidate.offsets.size(); ++t) {
      candidate.footprint = std::max(candidate.footprint, candidate.offsets[t] + problem.tensors[t].size);
    }
    if (random() % 16 == 0) candidate.footprint += static_cast<Bytes>(uniform(random, 0, 1));
    const bool expected = right(problem, candidate, 6);
    ASSERT_EQ(validate(problem, candidate).empty(), expected) << validate(problem, candidate);
    ++(expected ? good : bad);
  }
  EXPECT_GT(good, 20000);
  EXPECT_GT(bad, 20000);
}

TEST(Validator, NamesWhatIsWrong) {
  const Problem problem{{{"query", 0, 2, 64}, {"key", 1, 3, 64}}};
  EXPECT_EQ(validate(problem, {{0, 64}, 128}), "");
  const std::string overlap = validate(problem, {{0, 0}, 64});
  EXPECT_NE(overlap.find("'key'"), std::string::npos) << overlap;
  EXPECT_NE(overlap.find("overlaps 'query'"), std::string::npos) << overlap;
  EXPECT_NE(validate(problem, {{0, 65}, 129}).find("'key'"), std::string::npos);
  EXPECT_NE(validate(problem, {{0, 65}, 129}).find("not aligned to 64"), std::string::npos);
  EXPECT_NE(validate(problem, {{0, 64}, 192}).find("the footprint is 192, the highest end 128"), std::string::npos);
  EXPECT_NE(validate(problem, {{0}, 64}).find("1 offsets for 2 tensors"), std::string::npos);
  EXPECT_NE(validate(problem, {{0, ~Bytes{63}}, 0}).find("beyond 64 bits"), std::string::npos);
}

}  // namespace
}  // namespace l2l::device::planner
