#include "compiler/remat/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "l2l/errors.h"
#include "tests/compiler/remat/random_numbers.h"

namespace l2l::compiler::remat {
namespace {

using Subset = std::uint32_t;  // bit v: value v

// The values that can be computed from `keep`, op by op.
Subset available(const CutProblem& problem, Subset keep) {
  Subset there = keep;
  for (ValueIndex v = 0; v < problem.values.size(); ++v) there |= Subset{problem.values[v].given} << v;
  for (const CutOp& op : problem.ops) {
    const auto is_there = [&](ValueIndex v) { return (there >> v & 1) != 0; };
    if (op.banned || !std::all_of(op.inputs.begin(), op.inputs.end(), is_there)) continue;
    for (const ValueIndex v : op.outputs) there |= Subset{1} << v;
  }
  return there;
}

bool enough(const CutProblem& problem, Subset keep) {
  const Subset there = available(problem, keep);
  for (ValueIndex v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].needed && !(there >> v & 1)) return false;
  }
  return true;
}

bool allowed(const CutProblem& problem, Subset keep) {
  for (ValueIndex v = 0; v < problem.values.size(); ++v) {
    if ((keep >> v & 1) && (!problem.values[v].keepable || problem.values[v].given)) return false;
  }
  return true;
}

Bytes bytes_of(const CutProblem& problem, Subset keep) {
  Bytes sum = 0;
  for (ValueIndex v = 0; v < problem.values.size(); ++v) sum += keep >> v & 1 ? problem.values[v].bytes : 0;
  return sum;
}

// Ops to run again, from the values read back to those kept.
Subset recomputed(const CutProblem& problem, Subset keep) {
  Subset wanted = 0, ops = 0;
  for (ValueIndex v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].given) keep |= Subset{1} << v;
    if (problem.values[v].needed) wanted |= Subset{1} << v;
  }
  for (std::size_t o = problem.ops.size(); o-- > 0;) {
    Subset outputs = 0;
    for (const ValueIndex v : problem.ops[o].outputs) outputs |= Subset{1} << v;
    if ((outputs & wanted & ~keep) == 0 || problem.ops[o].banned) continue;
    ops |= Subset{1} << o;
    for (const ValueIndex v : problem.ops[o].inputs) wanted |= Subset{1} << v;
  }
  return ops;
}

CutProblem random_problem(Random& random) {
  CutProblem problem;
  const std::size_t values = 1 + below(random, 11);
  const Bytes largest = one_in(random, 2) ? 4 : 1000;
  for (std::size_t v = 0; v < values; ++v) {
    problem.values.push_back({below(random, largest), one_in(random, 6), one_in(random, 3), !one_in(random, 8)});
  }
  for (std::size_t next = below(random, 3); next < values;) {
    CutOp op;
    for (std::uint64_t i = below(random, 4); next > 0 && i > 0; --i) {
      op.inputs.push_back(static_cast<ValueIndex>(below(random, next)));
    }
    for (std::uint64_t i = 1 + below(random, 5) / 3; i > 0 && next < values; --i) {
      op.outputs.push_back(static_cast<ValueIndex>(next++));
    }
    op.banned = one_in(random, 4);
    problem.ops.push_back(op);
  }
  return problem;
}

struct BestCut {
  Bytes bytes = 0;
  Subset always_recomputed = ~Subset{0};  // in every choice of as few bytes
};

std::optional<BestCut> brute_force(const CutProblem& problem) {
  std::optional<BestCut> best;
  for (Subset keep = 0; keep < Subset{1} << problem.values.size(); ++keep) {
    if (!allowed(problem, keep) || !enough(problem, keep)) continue;
    const Bytes bytes = bytes_of(problem, keep);
    if (!best || bytes < best->bytes) best = BestCut{bytes};
    if (bytes == best->bytes) best->always_recomputed &= recomputed(problem, keep);
  }
  return best;
}

template <typename List>
Subset as_bits(const List& list) {
  Subset bits = 0;
  for (const auto i : list) bits |= Subset{1} << i;
  return bits;
}

// Removes kept values one by one: no kept value with bytes can be missed.
void expect_none_too_many(const CutProblem& problem, const std::vector<ValueIndex>& cut) {
  for (const ValueIndex v : cut) {
    const Subset fewer = as_bits(cut) & ~(Subset{1} << v);
    EXPECT_TRUE(problem.values[v].bytes == 0 || !enough(problem, fewer)) << v;
  }
}

TEST(MinCut, IsTheLeastOfAllSubsetsAndRecomputesLeast) {
  Random random(1);
  int possible = 0, keeping = 0, recomputing = 0;
  constexpr int kCases = 20000;
  for (int i = 0; i < kCases; ++i) {
    const CutProblem problem = random_problem(random);
    const std::optional<BestCut> best = brute_force(problem);
    if (!best) {
      ASSERT_THROW(min_cut(problem), BadInput) << i;
      continue;
    }
    const std::vector<ValueIndex> cut = min_cut(problem);
    const Subset keep = as_bits(cut);
    ASSERT_TRUE(std::is_sorted(cut.begin(), cut.end()));
    ASSERT_TRUE(allowed(problem, keep) && enough(problem, keep)) << i;
    ASSERT_EQ(bytes_of(problem, keep), best->bytes) << i;
    ASSERT_EQ(recomputed(problem, keep), best->always_recomputed) << i;
    expect_none_too_many(problem, cut);
    ++possible;
    keeping += best->bytes > 0;
    recomputing += best->always_recomputed != 0;
  }
  EXPECT_GT(keeping, kCases / 10);
  EXPECT_GT(recomputing, kCases / 10);
  std::cout << kCases << " graphs: " << possible << " possible, " << keeping << " keep, " << recomputing
            << " recompute\n";
}

// x, then conv and relu in turns; relu's backward reads its output, conv's its input.
CutProblem conv_relu(int pairs, bool conv_may_run_again) {
  CutProblem problem;
  problem.values = {{100, true, true}};
  for (int i = 0; i < pairs; ++i) {
    const auto v = static_cast<ValueIndex>(problem.values.size());
    problem.values.push_back({100});               // conv
    problem.values.push_back({100, false, true});  // relu
    problem.ops.push_back({{v - 1}, {v}, !conv_may_run_again});
    problem.ops.push_back({{v}, {v + 1}});
  }
  return problem;
}

struct Cut {
  std::vector<ValueIndex> keep;
  Bytes bytes;
  Subset recompute;
};

Cut cut_of(const CutProblem& problem) {
  const std::vector<ValueIndex> keep = min_cut(problem);
  return {keep, bytes_of(problem, as_bits(keep)), recomputed(problem, as_bits(keep))};
}

TEST(MinCut, OfConvolutionsKeepsOneValueForEach) {
  const Cut cut = cut_of(conv_relu(3, false));
  EXPECT_EQ(cut.bytes, 300u);
  EXPECT_EQ(cut.keep, (std::vector<ValueIndex>{2, 4, 6}));  // relu's, nearest to where they are read
  EXPECT_EQ(cut.recompute, 0u);
  const Cut free = cut_of(conv_relu(3, true));
  EXPECT_EQ(free.bytes, 0u);
  EXPECT_EQ(free.recompute, 0b111111u);
}

// matmul (banned) -> wide -> norm -> narrow -> gelu -> dropout, all read.
TEST(MinCut, RunsAFusibleChainAgainFromItsNarrowEnd) {
  CutProblem problem;
  problem.values = {{64, true}, {400, false, false}, {8, false, true}, {400, false, true}, {400, false, true}};
  problem.ops = {{{0}, {1}, true}, {{1}, {2}}, {{2}, {3}}, {{3}, {4}}};
  const Cut cut = cut_of(problem);
  EXPECT_EQ(cut.keep, (std::vector<ValueIndex>{2}));
  EXPECT_EQ(cut.recompute, 0b1100u);
  problem.values[2].keepable = false;
  EXPECT_EQ(min_cut(problem), (std::vector<ValueIndex>{1}));
}

TEST(MinCut, OneRunGivesAllOutputs) {
  CutProblem problem;  // norm: y, mean, deviation of a banned product
  problem.values = {{8, true}, {50}, {40, false, true}, {20, false, true}, {20, false, true}};
  problem.ops = {{{0}, {1}, true}, {{1}, {2, 3, 4}}};
  const Cut cut = cut_of(problem);
  EXPECT_EQ(cut.keep, (std::vector<ValueIndex>{1}));
  EXPECT_EQ(cut.recompute, 0b10u);
}

TEST(MinCut, ValuesOfNoBytesAreKept) {
  CutProblem problem;
  problem.values = {{8, true}, {0}, {0, false, true}};
  problem.ops = {{{0}, {1}, true}, {{1}, {2}}};
  const Cut cut = cut_of(problem);
  EXPECT_EQ(cut.keep, (std::vector<ValueIndex>{2}));
  EXPECT_EQ(cut.recompute, 0u);
}

TEST(MinCut, RefusesWhatCannotBe) {
  CutProblem lost;
  lost.values = {{8, false, true, false}};
  EXPECT_THROW(min_cut(lost), BadInput);
  CutProblem late;  // read by op 0, written by op 1
  late.values = {{8, true}, {8}, {8}};
  late.ops = {{{1}, {2}}, {{0}, {1}}};
  EXPECT_THROW(min_cut(late), BadInput);
  CutProblem twice;
  twice.values = {{8, true}, {8}};
  twice.ops = {{{0}, {1}}, {{0}, {1}}};
  EXPECT_THROW(min_cut(twice), BadInput);
  CutProblem nowhere;
  nowhere.values = {{8, true}};
  nowhere.ops = {{{0}, {1}}};
  EXPECT_THROW(min_cut(nowhere), BadInput);
  CutProblem banned = conv_relu(1, false);  // nothing but the product's input is there
  for (CutValue& value : banned.values) value.keepable = false;
  EXPECT_THROW(min_cut(banned), BadInput);
}

}  // namespace
}  // namespace l2l::compiler::remat
