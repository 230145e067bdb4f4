#include "compiler/memory/blocks.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/memory/interference.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

// The edges of the interference graph, from the definition.
std::set<std::pair<Index, Index>> pairs(const Problem& problem) {
  std::set<std::pair<Index, Index>> all;
  for (Index a = 0; a < problem.tensors.size(); ++a) {
    for (Index b = 0; b < problem.tensors.size(); ++b) {
      const bool bytes = problem.tensors[a].size > 0 && problem.tensors[b].size > 0;
      if (a != b && bytes && !may_share(problem, a, b)) all.emplace(a, b);
    }
  }
  return all;
}

TEST(Blocks, MeetAsTheDefinitionSays) {
  Random random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t streams = 1 + random() % 4;
    const Problem problem = streams == 1 ? random_problem(random, uniform(random, 0, 30), 12, 6, 4)
                                         : random_streams(random, uniform(random, 0, 30), streams, 20, 6, 4);
    const Blocks blocks(problem);
    std::set<std::pair<Index, Index>> found;
    for (Index a = 0; a < blocks.count(); ++a) {
      ASSERT_EQ(blocks.parts(a).size(), 1u);
      ASSERT_EQ(blocks.size(a), align_up(problem.tensors[blocks.parts(a)[0].tensor].size, 4));
      ASSERT_TRUE(std::is_sorted(blocks.neighbours(a).begin(), blocks.neighbours(a).end()));
      for (const Index b : blocks.neighbours(a)) found.emplace(blocks.parts(a)[0].tensor, blocks.parts(b)[0].tensor);
    }
    ASSERT_EQ(found, pairs(problem));
    ASSERT_EQ(2 * count_interferences(problem, live_tensors(problem)), found.size());
  }
}

TEST(Blocks, ManyTensorsOnStreamsMeetAsTheDefinitionSays) {
  Random random(2);  // more than one chunk of clocks
  const Problem problem = random_streams(random, 700, 3, 400, 6, 1);
  const Blocks blocks(problem);
  std::size_t found = 0;
  for (Index a = 0; a < blocks.count(); ++a) found += blocks.neighbours(a).size();
  EXPECT_EQ(found, pairs(problem).size());
}

bool inside(std::span<const Range> ranges, std::int64_t distance) {
  return std::any_of(ranges.begin(), ranges.end(), [&](Range r) { return r.low < distance && distance < r.high; });
}

TEST(Blocks, RangesOfGroupsForbidExactlyWhatOverlaps) {
  Random random(3);
  int grouped = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto alignment = static_cast<std::int64_t>(1 << random() % 3);
    Problem problem = random_streams(random, uniform(random, 2, 9), 1 + random() % 2, 9, 6, Bytes(alignment));
    add_random_groups(random, problem);
    const Blocks blocks(problem);
    grouped += blocks.grouped();
    if (!blocks.grouped()) continue;
    for (Index a = 0; a < blocks.count(); ++a) {
      for (Index b = 0; b < blocks.count(); ++b) {
        if (a == b) continue;
        const auto list = blocks.neighbours(a);
        const auto at = std::lower_bound(list.begin(), list.end(), b);
        const bool adjacent = at != list.end() && *at == b;
        for (std::int64_t distance = -40 * alignment; distance <= 40 * alignment; distance += alignment) {
          bool overlap = false;
          for (const Part& p : blocks.parts(a)) {
            for (const Part& q : blocks.parts(b)) {
              const auto x = static_cast<std::int64_t>(p.offset), y = distance + static_cast<std::int64_t>(q.offset);
              const bool apart =
                  x + static_cast<std::int64_t>(p.size) <= y || y + static_cast<std::int64_t>(q.size) <= x;
              overlap = overlap || (!apart && p.size > 0 && q.size > 0 && !may_share(problem, p.tensor, q.tensor));
            }
          }
          const auto k = static_cast<std::size_t>(at - list.begin());
          ASSERT_EQ(overlap, adjacent && inside(blocks.ranges(a, k), distance)) << a << " " << b << " " << distance;
        }
      }
    }
  }
  EXPECT_GT(grouped, 800);
}

}  // namespace
}  // namespace l2l::compiler::memory
