#include "compiler/remat/chain.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <limits>

#include "l2l/errors.h"
#include "tests/compiler/remat/pareto_chain.h"
#include "tests/compiler/remat/random_chains.h"

namespace l2l::compiler::remat {
namespace {

// Tries every option for every layer.
void try_all(const Types& types, const ChainBudget& budget, std::size_t type, std::size_t layer, const Sums& sums,
             std::optional<Nanoseconds>& best) {
  while (type < types.size() && layer == types[type].layers) ++type, layer = 0;
  if (type == types.size()) {
    const bool fits = sums.device + sums.arena <= budget.device && sums.host <= budget.host;
    if (fits) best = std::min(best.value_or(sums.time), sums.time);
    return;
  }
  for (const LayerOption& option : types[type].options) {
    Sums more = sums;
    more.add(types[type], option, 1);
    try_all(types, budget, type, layer + 1, more, best);
  }
}

TEST(Chain, IsTheBestOfAllChoices) {
  Random random(1);
  int possible = 0, proved = 0, bound = 0;
  constexpr int kCases = 6000;
  for (int i = 0; i < kCases; ++i) {
    const auto shape = static_cast<Shape>(i % 4);
    const Types types = random_types(random, shape, 1 + below(random, 3), 3, i % 5 == 0 ? 5 : 3);
    const ChainBudget budget = random_budget(random, types);
    std::optional<Nanoseconds> best;
    try_all(types, budget, 0, 0, {}, best);
    const std::optional<ChainChoice> answer = choose(types, budget);
    ASSERT_EQ(answer.has_value(), best.has_value()) << i;
    if (!answer) continue;
    ASSERT_TRUE(holds(types, budget, *answer)) << i;
    ASSERT_EQ(answer->time, *best) << i;
    ++possible;
    proved += answer->bound == answer->time;
    bound += answer->time > choose(types, {~Bytes{0}, ~Bytes{0}})->time;
  }
  EXPECT_GT(possible, kCases / 4);
  EXPECT_GT(kCases - possible, kCases / 20);
  EXPECT_GT(bound, kCases / 10);
  std::cout << kCases << " chains, " << possible << " fit, " << proved << " proved best, " << bound
            << " pay for the budget\n";
}

// Against a dynamic programme over layers that keeps the Pareto front of all sums.
TEST(Chain, OfSomeDozenLayersMissesLittle) {
  Random random(2);
  int compared = 0, equal = 0, proved = 0;
  double worst = 0, worst_stated = 0;
  for (int i = 0; i < 240; ++i) {
    Types types = random_types(random, i % 3 == 0 ? Shape::proportional : Shape::trade, 1 + below(random, 2), 0, 5);
    for (LayerType& type : types) type.layers = 12 + below(random, types.size() == 1 ? 30 : 8);
    const ChainBudget budget = random_budget(random, types);
    const std::optional<Nanoseconds> best = best_time_by_pareto(types, budget, 20000);
    if (!best) continue;
    const std::optional<ChainChoice> answer = choose(types, budget);
    ASSERT_TRUE(answer) << i;
    ASSERT_TRUE(holds(types, budget, *answer));
    ASSERT_GE(answer->time, *best) << i;
    ASSERT_LE(answer->bound, *best) << i;
    const auto share = [&](Nanoseconds of) {
      return static_cast<double>(answer->time - of) / static_cast<double>(*best);
    };
    worst = std::max(worst, share(*best));
    worst_stated = std::max(worst_stated, share(answer->bound));
    ++compared;
    equal += answer->time == *best;
    proved += answer->time == answer->bound;
  }
  EXPECT_GT(compared, 60);
  EXPECT_LT(worst, 0.002);
  std::cout << compared << " chains of 12 to 41 layers: " << equal << " exact, " << proved << " proved, at most "
            << 100 * worst << "% above the best, " << 100 * worst_stated << "% by its own word\n";
}

using Solver = std::function<std::optional<Nanoseconds>(const Types&, const ChainBudget&)>;

// How often time rises from one budget to a larger one, over a grid.
int rises(const Types& types, const ChainBudget& most, const Solver& solve) {
  constexpr Bytes kSteps = 6;
  std::optional<Nanoseconds> times[kSteps + 1][kSteps + 1];
  int rises = 0;
  const auto rose = [](const auto& from, const auto& to) { return from && (!to || *to > *from); };
  for (Bytes d = 0; d <= kSteps; ++d) {
    for (Bytes h = 0; h <= kSteps; ++h) {
      times[d][h] = solve(types, {most.device / kSteps * d, most.host / kSteps * h});
      if (d > 0) rises += rose(times[d - 1][h], times[d][h]);
      if (h > 0) rises += rose(times[d][h - 1], times[d][h]);
    }
  }
  return rises;
}

// Gives each layer in turn the fastest option that still fits.
std::optional<Nanoseconds> greedy(const Types& types, const ChainBudget& budget) {
  Sums sums;
  for (const LayerType& type : types) {
    for (std::size_t l = 0; l < type.layers; ++l) {
      std::optional<Sums> best;
      for (const LayerOption& option : type.options) {
        Sums more = sums;
        more.add(type, option, 1);
        if (more.device + more.arena > budget.device || more.host > budget.host) continue;
        if (!best || more.time < best->time) best = more;
      }
      if (!best) return std::nullopt;
      sums = *best;
    }
  }
  return sums.time;
}

TEST(Chain, TimeNeverRisesWithABudget) {
  Random random(3);
  const Solver solver = [](const Types& types, const ChainBudget& budget) -> std::optional<Nanoseconds> {
    const std::optional<ChainChoice> answer = choose(types, budget);
    if (!answer) return std::nullopt;
    EXPECT_TRUE(holds(types, budget, *answer));
    return answer->time;
  };
  int of_greedy = 0, chains = 0;
  for (; chains < 160; ++chains) {
    const auto shape = static_cast<Shape>(chains % 4);
    const Types types = random_types(random, shape, 1 + below(random, 4), chains % 3 == 0 ? 9 : 300, 6);
    const ChainBudget most = random_budget(random, types);
    ASSERT_EQ(rises(types, most, solver), 0) << chains;
    of_greedy += rises(types, most, greedy);
  }
  EXPECT_GT(of_greedy, 50);  // the check sees it
  std::cout << chains << " chains, 49 budgets each: no rise; a greedy choice rises " << of_greedy << " times\n";
}

TEST(Chain, OfThousandsOfLayersTakesAMoment) {
  Random random(4);
  double slowest = 0, all = 0, gap = 0;
  int cases = 0;
  for (int i = 0; i < 40; ++i) {
    const Shape shape = i % 4 == 0 ? Shape::proportional : i % 4 == 1 ? Shape::any : Shape::trade;
    Types types(3);
    for (LayerType& type : types) {
      type.layers = 2000;
      for (int o = 0; o < 12; ++o) type.options.push_back(random_option(random, shape));
    }
    const ChainBudget budget = random_budget(random, types);
    const auto begin = std::chrono::steady_clock::now();
    const std::optional<ChainChoice> answer = choose(types, budget);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    all += spent.count();
    slowest = std::max(slowest, spent.count());
    if (!answer) continue;
    ASSERT_TRUE(holds(types, budget, *answer));
    ASSERT_EQ(choose(types, budget)->layers, answer->layers);
    gap = std::max(gap, static_cast<double>(answer->time - answer->bound) / static_cast<double>(answer->time));
    ++cases;
  }
  EXPECT_GT(cases, 20);
  EXPECT_LT(gap, 0.001);
  EXPECT_LT(slowest, 2.0);  // debug builds too
  std::cout << "3 types x 2,000 layers x 12 options: " << 1000 * all / 40 << " ms, at most " << 1000 * slowest
            << " ms; " << cases << " fit, within " << 1e6 * gap << " millionths of the bound\n";
}

// 24 blocks between embedding and head: keep everything, keep on the host, or recompute.
TEST(Chain, SaysHowManyLayersKeep) {
  constexpr Nanoseconds kMs = 1000000;
  LayerType block{24, 5 * kMs, 5 * kMs, 10 * kMs, {}};
  block.options.push_back({30 * kMs, 90 * kMs, 100 * kMiB, 0, 0, 0, 300 * kMiB});                         // recompute
  block.options.push_back({30 * kMs, 60 * kMs, 900 * kMiB, 0, 0, 0, 300 * kMiB});                         // device
  block.options.push_back({30 * kMs, 60 * kMs, 100 * kMiB, 800 * kMiB, 80 * kMs, 80 * kMs, 300 * kMiB});  // host
  const Types types{{1, 0, 0, 0, {{kMs, kMs}}}, block, {1, 0, 0, 0, {{kMs, 2 * kMs, 0, 0, 0, 0, 500 * kMiB}}}};
  const auto with = [&](Bytes device) { return choose(types, {device, 100 * kGiB}).value(); };
  const Bytes base = 500 * kMiB + 24 * 100 * kMiB;
  EXPECT_EQ(with(base).layers[1], (std::vector<std::size_t>{24, 0, 0}));
  EXPECT_EQ(with(base + 11 * 800 * kMiB).layers[1], (std::vector<std::size_t>{13, 11, 0}));
  EXPECT_EQ(with(base + 12 * 800 * kMiB - 1).layers[1], (std::vector<std::size_t>{13, 11, 0}));
  EXPECT_EQ(with(base).time, (24 * (30 + 90) + 2 + 3) * kMs);
  EXPECT_EQ(with(base + 11 * 800 * kMiB).bound, with(base + 11 * 800 * kMiB).time);
  EXPECT_FALSE(choose(types, {base - 1, 0}));
}

TEST(Chain, ABudgetOfOneByteLessIsNotHeld) {
  Random random(5);
  int seen = 0;
  for (int i = 0; i < 300; ++i) {
    const Types types = random_types(random, Shape::trade, 2, 9, 4);
    const std::optional<ChainChoice> answer = choose(types, random_budget(random, types));
    if (!answer || answer->device == 0) continue;
    const ChainBudget exact{answer->device, answer->host};
    ASSERT_TRUE(holds(types, exact, *answer));
    ASSERT_FALSE(holds(types, {exact.device - 1, exact.host}, *answer));
    ASSERT_EQ(choose(types, exact)->time, answer->time);
    ++seen;
  }
  EXPECT_GT(seen, 100);
}

TEST(Chain, OfNothingAndOfTooMuch) {
  EXPECT_EQ(choose({}, {0, 0})->time, 0u);
  EXPECT_EQ(choose({{0, 0, 0, 0, {}}}, {0, 0})->layers, (std::vector<std::vector<std::size_t>>{{}}));
  EXPECT_THROW(choose({{1, 0, 0, 0, {}}}, {0, 0}), BadInput);
  EXPECT_THROW(choose({{2, 0, 0, 0, {{Nanoseconds{1} << 51}}}}, {0, 0}), BadInput);
  EXPECT_THROW(choose({{1, 0, ~Nanoseconds{0}, 0, {{0, 0, 0, 0, 0, 1}}}}, {0, 0}), BadInput);
  EXPECT_THROW(choose({{~std::size_t{0}, 0, 0, 0, {{0, 0, 2}}}}, {0, 0}), BadInput);
  EXPECT_EQ(to_nanoseconds(1.5e-6), 1500u);
  EXPECT_EQ(to_nanoseconds(3e7), 30'000'000'000'000'000u);
  EXPECT_THROW(to_nanoseconds(365.0 * 86400), BadInput);
  EXPECT_THROW(to_nanoseconds(-1), BadInput);
  EXPECT_THROW(to_nanoseconds(std::numeric_limits<double>::quiet_NaN()), BadInput);
}

}  // namespace
}  // namespace l2l::compiler::remat
