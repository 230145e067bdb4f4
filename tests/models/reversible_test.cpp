// Reversible models compared with the models that are not: the same branches and weights.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "models/families.h"
#include "tests/compiler/interpreter.h"
#include "tests/models/model_checks.h"

namespace l2l::models {
namespace {

using compiler::Graph;
using compiler::Memory;
using compiler::Region;

constexpr double kTolerance = 1e-12;
constexpr std::size_t kElements = 12 * 24;  // of an activation

TransformerShape shape_of(Reversible reversible) {
  return {.layers = 2,
          .hidden = 24,
          .heads = 4,
          .intermediate = 64,
          .vocabulary = 40,
          .sequence = 6,
          .micro_batch = 2,
          .vocabulary_chunk = 40,
          .reversible = reversible};
}

struct Maker {
  const char* name;
  Model (*make)(const TransformerShape&);
};

class ReversibleModel : public ::testing::TestWithParam<Maker> {
 protected:
  ReversibleModel()
      : plain_(make(Reversible::no)), floating_(make(Reversible::floating)), fixed_(make(Reversible::fixed)) {}
  static Model make(Reversible reversible) { return GetParam().make(shape_of(reversible)); }

  const Model plain_, floating_, fixed_;
};

std::vector<double> random_values(std::size_t count, unsigned int seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, 0.7);
  std::vector<double> values(count);
  for (double& value : values) value = normal(generator);
  return values;
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// `region` after a run on `input`, with the weights that all calls of one layer share, tokens and targets.
std::vector<double> run(const Graph& graph, const std::vector<double>& input, Region region) {
  Memory memory;
  memory[Region::input] = input;
  memory[Region::weights] = random_values(compiler::region_elements(graph, Region::weights), 3);
  for (std::size_t i = 0; i < 12; ++i) {
    memory[Region::tokens].push_back(static_cast<double>(7 * i % 40));
    memory[Region::targets].push_back(static_cast<double>(5 * i % 40));
  }
  interpret(graph, memory);
  return memory[region];
}

// From x in both streams: y1 = x + A(x) and y2 = x + M(y1); a block that is not reversible computes y1 + M(y1).
TEST_P(ReversibleModel, ABlockHasTheBranchesOfThePlainOne) {
  const std::vector<double> x = random_values(kElements, 1);
  const int block = plain_.block(1);
  const std::vector<double> z = run(plain_.type(block).forward, x, Region::output);
  for (const Model* model : {&floating_, &fixed_}) {
    const std::vector<double> y = run(model->type(block).forward, joined(x, x), Region::output);
    ASSERT_EQ(y.size(), 2 * kElements);
    for (std::size_t i = 0; i < kElements; ++i) ASSERT_NEAR(y[i] + y[kElements + i] - x[i], z[i], kTolerance) << i;
  }
}

TEST_P(ReversibleModel, TheHeadReadsTheSumOfBothStreams) {
  const std::vector<double> a = random_values(kElements, 4), b = random_values(kElements, 5);
  std::vector<double> sum = a;
  for (std::size_t i = 0; i < kElements; ++i) sum[i] += b[i];
  const double loss = run(plain_.type(plain_.head()).forward, sum, Region::loss)[0];
  EXPECT_NEAR(run(fixed_.type(fixed_.head()).forward, joined(a, b), Region::loss)[0], loss, kTolerance);
  // One row of both, as many rows apart.
  std::vector<double> row(a.begin(), a.begin() + 24), rows = joined(a, b);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += b[i];
  const std::vector<double> logits = run(plain_.type(plain_.head()).logits, row, Region::output);
  const std::vector<double> same = run(fixed_.type(fixed_.head()).logits, rows, Region::output);
  ASSERT_EQ(same.size(), logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(same[i], logits[i], kTolerance) << i;
}

TEST_P(ReversibleModel, HasTheParametersOfThePlainOne) {
  for (const Model* model : {&floating_, &fixed_}) {
    test::expect_wires_are_filled(*model);
    EXPECT_EQ(test::names_with_decay_of_matrices(*model), test::names_with_decay_of_matrices(plain_));
    EXPECT_EQ(model->layout.parameters(), plain_.layout.parameters());
  }
}

TEST_P(ReversibleModel, BothStreamsBeginAlike) {
  // A layer that is a table alone, as in an embedding in chunks, writes its rows to the carry.
  const Region made = plain_.type(0).forward.region_bytes(Region::carry) > 0 ? Region::carry : Region::output;
  const std::vector<double> x = run(plain_.type(0).forward, {}, made);
  EXPECT_EQ(run(fixed_.type(0).forward, {}, Region::output), joined(x, x));
}

TEST(StoredInputs, AreReadAsAnyOthers) {
  TransformerShape shape = shape_of(Reversible::fixed);
  const Model rebuilding = make_gpt2(shape);
  shape.keeps_inputs = true;
  const Model keeping = make_gpt2(shape);
  const int block = keeping.block(1);
  EXPECT_TRUE(rebuilding.rebuilds());
  EXPECT_FALSE(keeping.rebuilds());
  EXPECT_GT(rebuilding.type(block).backward.region_bytes(Region::output), 0u);
  EXPECT_EQ(keeping.type(block).backward.region_bytes(Region::output), 0u);
  EXPECT_EQ(keeping.activation_bytes(), 2 * 4 * kElements);
  EXPECT_EQ(keeping.results_bytes(), 8u);
}

INSTANTIATE_TEST_SUITE_P(Families, ReversibleModel,
                         ::testing::Values(Maker{"gpt2", make_gpt2}, Maker{"llama", make_llama}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace l2l::models
