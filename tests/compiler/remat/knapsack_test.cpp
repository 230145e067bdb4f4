#include "compiler/remat/knapsack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "l2l/errors.h"
#include "tests/compiler/remat/random_numbers.h"

namespace l2l::compiler::remat {
namespace {

using Items = std::vector<KnapsackItem>;

Knapsack knapsack(const Items& items, Bytes capacity, std::size_t limit = kMostChoices) {
  return ParetoFront(items, limit).best(capacity);
}

Items random_items(Random& random, std::size_t count) {
  const Bytes largest = Bytes{1} << (2 + below(random, 50));
  const Nanoseconds most = std::uint64_t{1} << (1 + below(random, 40));
  Items items;
  for (std::size_t i = 0; i < count; ++i) {
    items.push_back({below(random, largest), below(random, most)});
    if (one_in(random, 4)) items.back().value = items.back().bytes / 1000 + 1;  // as dear as it is heavy
  }
  return items;
}

Bytes bytes_of(const Items& items, const std::vector<std::uint32_t>& chosen) {
  Bytes sum = 0;
  for (const std::uint32_t i : chosen) sum += items[i].bytes;
  return sum;
}

bool holds(const Items& items, Bytes capacity, const Knapsack& answer) {
  Nanoseconds value = 0;
  for (const std::uint32_t i : answer.items) value += items[i].value;
  const bool once =
      std::adjacent_find(answer.items.begin(), answer.items.end(), std::greater_equal<>()) == answer.items.end();
  const Bytes bytes = bytes_of(items, answer.items);
  return once && bytes <= capacity && bytes == answer.bytes && value == answer.value;
}

// The best value within the capacity, and the fewest bytes for it.
KnapsackItem brute_force(const Items& items, Bytes capacity) {
  KnapsackItem best;
  for (std::uint32_t subset = 0; subset < 1u << items.size(); ++subset) {
    KnapsackItem sum;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!(subset >> i & 1)) continue;
      sum.bytes += items[i].bytes;
      sum.value += items[i].value;
    }
    if (sum.bytes > capacity) continue;
    if (sum.value > best.value || (sum.value == best.value && sum.bytes < best.bytes)) best = sum;
  }
  return best;
}

Bytes random_capacity(Random& random, const Items& items) {
  Bytes all = 1;
  for (const KnapsackItem& item : items) all += item.bytes;
  return below(random, all + all / 8);
}

TEST(Knapsack, IsTheBestOfAllSubsets) {
  Random random(1);
  int bound = 0;
  constexpr int kCases = 3000;
  for (int i = 0; i < kCases; ++i) {
    const Items items = random_items(random, below(random, 11));
    const ParetoFront front(items);
    for (int k = 0; k < 3; ++k) {
      const Bytes capacity = random_capacity(random, items);
      const KnapsackItem best = brute_force(items, capacity);
      const Knapsack answer = front.best(capacity);
      ASSERT_TRUE(holds(items, capacity, answer)) << i;
      ASSERT_EQ(answer.value, best.value) << i;
      ASSERT_EQ(answer.bytes, best.bytes) << i;
      ASSERT_EQ(answer.short_by, 0u);
      bound += bytes_of(items, knapsack(items, ~Bytes{0}).items) > capacity;
    }
  }
  EXPECT_GT(bound, kCases);
  std::cout << 3 * kCases << " capacities, " << bound << " of them bind\n";
}

// Weights in units of the capacity's 64th, rounded to the nearest: what a table of few columns leads to.
Knapsack by_rounded_weights(const Items& items, Bytes capacity) {
  const double unit = static_cast<double>(capacity) / 64;
  Items rounded;
  for (const KnapsackItem& item : items) {
    rounded.push_back({static_cast<Bytes>(static_cast<double>(item.bytes) / unit + 0.5), item.value});
  }
  Knapsack answer = knapsack(rounded, 64);
  answer.bytes = bytes_of(items, answer.items);
  return answer;
}

TEST(Knapsack, RoundedWeightsExceedTheCapacityAndAreCaught) {
  Random random(2);
  int caught = 0;
  for (int i = 0; i < 500; ++i) {
    Items items;
    for (int k = 0; k < 20; ++k) items.push_back({1000 + below(random, 100000), 1 + below(random, 1000)});
    caught += !holds(items, 400000, by_rounded_weights(items, 400000));
    ASSERT_TRUE(holds(items, 400000, knapsack(items, 400000)));
  }
  EXPECT_GT(caught, 50);
  std::cout << caught << " of 500 choices by rounded weights do not fit\n";
}

TEST(Knapsack, OfLargeNumbers) {
  constexpr Bytes kMost = ~Bytes{0};
  const Items items{{kMost - 1, 4}, {1, 3}, {0, 1}};
  EXPECT_EQ(knapsack(items, kMost).items, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(knapsack(items, kMost - 1).items, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(knapsack(items, 0).items, (std::vector<std::uint32_t>{2}));
  EXPECT_THROW((ParetoFront{Items{{kMost, 5}, {1, 3}}}), BadInput);
  EXPECT_THROW(knapsack(Items{{1, kMost}, {1, 1}}, 2), BadInput);
}

// Both classes are known to be hard: value = weight, and value = weight + constant (Pisinger 2005).
TEST(ParetoFront, OfSixtyFourItemsIsExactUnlessValueFollowsBytes) {
  Random random(3);
  Nanoseconds most_missing = 0;
  for (int i = 0; i < 30; ++i) {
    const Bytes range = Bytes{1} << (i % 2 ? 32 : 12);
    Items items;
    for (int k = 0; k < 64; ++k) {
      const Bytes bytes = 1 + below(random, range);
      items.push_back({bytes, i % 3 == 0 ? 1 + below(random, range) : i % 3 == 1 ? bytes + range / 10 : bytes});
    }
    const ParetoFront front(items);
    const Bytes capacity = random_capacity(random, items);
    ASSERT_TRUE(holds(items, capacity, front.best(capacity))) << i;
    if (i % 3 == 0) ASSERT_EQ(front.short_by(), 0u) << i;
    const double all = static_cast<double>(front.points().back().value);
    most_missing = std::max(most_missing, static_cast<Nanoseconds>(1e6 * static_cast<double>(front.short_by()) / all));
  }
  EXPECT_LT(most_missing, 1000u);
  std::cout << "30 of 64 items, within " << most_missing << " millionths of all value\n";
}

TEST(ParetoFront, AscendsAndMissesNoMoreThanItSays) {
  Random random(4);
  Nanoseconds missed = 0;
  for (int i = 0; i < 300; ++i) {
    const Items items = random_items(random, 14);
    const ParetoFront exact(items), thin(items, 40);
    ASSERT_LE(thin.points().size(), 41u);
    ASSERT_EQ(exact.short_by(), 0u);
    for (std::size_t p = 1; p < thin.points().size(); ++p) {
      ASSERT_LT(thin.points()[p - 1].bytes, thin.points()[p].bytes);
      ASSERT_LT(thin.points()[p - 1].value, thin.points()[p].value);
    }
    for (const ParetoFront::Point& point : exact.points()) {
      const Knapsack best = thin.best(point.bytes);
      ASSERT_TRUE(holds(items, point.bytes, best));
      ASSERT_GE(best.value + thin.short_by(), point.value) << i;
      missed += point.value - best.value;
    }
  }
  EXPECT_GT(missed, 0u);
}

TEST(Knapsack, ThinnedMissesNoMoreThanItSays) {
  Random random(5);
  int missed = 0;
  for (int i = 0; i < 2000; ++i) {
    Items items;
    for (int k = 0; k < 12; ++k) items.push_back({1 + below(random, 500), 0});
    for (KnapsackItem& item : items) item.value = item.bytes + below(random, 3);
    const Bytes capacity = random_capacity(random, items);
    const Knapsack answer = knapsack(items, capacity, 4);
    ASSERT_TRUE(holds(items, capacity, answer));
    const Nanoseconds best = brute_force(items, capacity).value;
    ASSERT_GE(answer.value + answer.short_by, best);
    missed += answer.value < best;
  }
  EXPECT_GT(missed, 100);
  std::cout << missed << " of 2000 thinned choices miss the best one\n";
}

}  // namespace
}  // namespace l2l::compiler::remat
