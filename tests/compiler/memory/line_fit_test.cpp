#include "compiler/memory/search/line_fit.h"

#include <gtest/gtest.h>

#include "compiler/memory/planner.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

constexpr Bytes kAnyHeight = ~Bytes{0};
bool never() { return false; }

std::vector<Index> random_order(Random& random, const Blocks& blocks) {
  std::vector<Index> order(blocks.count());
  std::iota(order.begin(), order.end(), Index{0});
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// By the definition: of the blocks whose lowest offset above their placed neighbours is the lowest, the first.
std::vector<Bytes> by_definition(const Blocks& blocks, std::vector<Index> order) {
  std::vector<Bytes> offsets(blocks.count(), 0);
  while (!order.empty()) {
    const auto next =
        std::min_element(order.begin(), order.end(), [&](Index a, Index b) { return offsets[a] < offsets[b]; });
    const Index block = *next;
    order.erase(next);
    for (const Index other : order) {
      const std::span<const Index> met = blocks.neighbours(block);
      if (!std::binary_search(met.begin(), met.end(), other)) continue;
      offsets[other] = std::max(offsets[other], offsets[block] + blocks.size(block));
    }
  }
  return offsets;
}

TEST(LineFit, IsItsDefinition) {
  Random random(21);
  for (int i = 0; i < 1000; ++i) {
    const Problem problem = random_problem(random, uniform(random, 0, 60), uniform(random, 1, 40), 20, 1 + i % 2 * 3);
    const Blocks blocks(problem);
    const std::vector<Index> order = random_order(random, blocks);
    const auto found = LineFit(Blocks(problem, /*connected=*/false)).place(order, kAnyHeight, never);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->offsets, by_definition(blocks, order)) << i;
    ASSERT_EQ(validate(problem, blocks.plan(found->offsets)), "") << i;
    Bytes highest = 0;
    for (const Index block : order) highest = std::max(highest, found->offsets[block] + blocks.size(block));
    ASSERT_EQ(found->footprint, highest) << i;
  }
}

TEST(LineFit, KnowsWhichBlocksMeet) {
  Random random(22);
  const Problem problem = random_problem(random, 80, 30, 20, 1);
  const Blocks blocks(problem);
  const LineFit fit(blocks);
  for (Index a = 0; a < blocks.count(); ++a) {
    for (Index b = 0; b < blocks.count(); ++b) {
      if (a == b) continue;
      const std::span<const Index> met = blocks.neighbours(a);
      ASSERT_EQ(fit.meet(a, b), std::binary_search(met.begin(), met.end(), b)) << a << " " << b;
    }
  }
}

TEST(LineFit, EndsAboveTheHighestOrWhenItIsTold) {
  Random random(23);
  const Problem problem = random_problem(random, 200, 50, 1000, 1);
  const Blocks blocks(problem);
  const LineFit fit(blocks);
  const std::vector<Index> order = random_order(random, blocks);
  const Bytes footprint = fit.place(order, kAnyHeight, never)->footprint;
  EXPECT_TRUE(fit.place(order, footprint, never));
  EXPECT_FALSE(fit.place(order, footprint - 1, never));
  int asked = 0;
  EXPECT_FALSE(fit.place(order, kAnyHeight, [&] { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace l2l::compiler::memory
