// Graph::validate() catches seeded mistakes in graphs that are right without them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compiler/autodiff/differentiate.h"
#include "l2l/errors.h"
#include "tests/compiler/example_graphs.h"

namespace l2l::compiler {
namespace {

std::size_t find(const Graph& graph, OpKind kind) {
  const auto found = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.kind == kind; });
  return static_cast<std::size_t>(found - graph.ops.begin());
}
Op& op_of(Graph& graph, OpKind kind) { return graph.ops.at(find(graph, kind)); }
Value& value_of(Graph& graph, ValueId id) { return graph.values.at(static_cast<std::size_t>(id)); }
Value& first_in(Graph& graph, Region region) {
  return *std::find_if(graph.values.begin(), graph.values.end(), [&](const Value& v) { return v.region == region; });
}

struct Mistake {
  std::string name;
  std::function<void(Graph&)> seed;  // into the backward graph of a block
  std::string message;               // part of it
};

class ValidateCatches : public testing::TestWithParam<Mistake> {};

TEST_P(ValidateCatches, TheSeededMistake) {
  Graph graph = differentiate(example_block({}));
  ASSERT_NO_THROW(graph.validate());
  GetParam().seed(graph);
  try {
    graph.validate();
    FAIL() << "not caught";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos) << error.what();
  }
}

std::vector<Mistake> mistakes() {
  return {
      {"dtype", [](Graph& g) { value_of(g, op_of(g, OpKind::gelu).outputs[0]).dtype = DType::bf16; },
       "gelu: y = gelu.8.y bf16 [8, 24] must be f32"},
      {"statistics_dtype", [](Graph& g) { value_of(g, op_of(g, OpKind::layer_norm).outputs[1]).dtype = DType::f64; },
       "mean = layer_norm.0.mean f64 [8] must be f32"},
      {"shape",
       [](Graph& g) {
         value_of(g, op_of(g, OpKind::gelu).outputs[0]).shape = {8, 23};
       },
       "gelu.8.y f32 [8, 23] must be of shape [R, H], R = 8, H = 24"},
      {"rank", [](Graph& g) { value_of(g, op_of(g, OpKind::attention).outputs[1]).shape = {12}; },
       "logsumexp = attention.2.logsumexp f32 [12] must be of shape [R, D]"},
      {"use_before_definition", [](Graph& g) { std::swap(g.ops[0], g.ops[1]); },
       "op 0, matmul: layer_norm.0.y f32 [8, 6] is read before an op made it"},
      {"double_assignment", [](Graph& g) { g.ops.push_back(op_of(g, OpKind::gelu)); },
       "gelu: gelu.8.y f32 [8, 24] is made a second time"},
      {"same_output_twice",
       [](Graph& g) {
         Op& op = op_of(g, OpKind::layer_norm);
         op.outputs[2] = op.outputs[1];
       },
       "layer_norm.0.mean f32 [8] is made a second time"},
      {"writes_a_weight",
       [](Graph& g) {
         Op& op = op_of(g, OpKind::dropout);
         value_of(g, op.outputs[0]).region = Region::weights;
         value_of(g, op.outputs[0]).offset = 1 << 20;
       },
       "lives in weights, where the op cannot write"},
      {"accumulates_in_scratch",
       [](Graph& g) { value_of(g, op_of(g, OpKind::bias_gradient).outputs[0]).region = Region::scratch; },
       "lives in scratch, where the op cannot accumulate"},
      {"overwrites_an_accumulator",
       [](Graph& g) {
         for (Op& op : g.ops) op.attributes.accumulate = false;
       },
       "lives in gradients, where the op cannot write"},
      {"accumulator_dtype", [](Graph& g) { first_in(g, Region::gradients).dtype = DType::bf16; },
       "does not fit the region gradients"},
      {"tokens_dtype",
       [](Graph& g) {
         g.values.push_back({"t", DType::bf16, {6}, Region::tokens});
       },
       "t bf16 [6] does not fit the region tokens"},
      {"overlapping_weights", [](Graph& g) { g.values[1].offset += 4; }, "overlap in weights"},
      {"unaligned", [](Graph& g) { first_in(g, Region::weights).offset = 2; }, "is not aligned to its element size"},
      {"output_nobody_makes",
       [](Graph& g) {
         g.values.push_back({"y", DType::f32, {6}, Region::output});
       },
       "y f32 [6] in output is made by no op"},
      {"unknown_input", [](Graph& g) { op_of(g, OpKind::add).inputs[0] = 4000; }, "add: a is value 4000"},
      {"too_few_inputs", [](Graph& g) { op_of(g, OpKind::add).inputs.pop_back(); }, "add: 1 inputs instead of 2"},
      {"too_many_inputs", [](Graph& g) { op_of(g, OpKind::gelu).inputs.push_back(0); }, "gelu: 2 inputs instead of 1"},
      {"too_few_outputs", [](Graph& g) { op_of(g, OpKind::layer_norm).outputs.pop_back(); }, "2 outputs instead of 3"},
      {"transpose", [](Graph& g) { op_of(g, OpKind::matmul).attributes.transpose_a = true; }, "matmul: K = "},
      {"heads", [](Graph& g) { op_of(g, OpKind::attention_backward).attributes.heads = 4; },
       "attention_backward: Q = 18 columns of qkv do not hold 4 + 2 x 4 heads"},
      {"kind", [](Graph& g) { g.ops[3].kind = OpKind::count; }, "op 3 is of no known kind"},
      {"region", [](Graph& g) { g.values[0].region = Region::count; }, "lives in no known region"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ValidateCatches, testing::ValuesIn(mistakes()),
                         [](const auto& info) { return info.param.name; });

TEST(Validate, AcceptsAParameterBoundTwice) {
  GraphBuilder graph("tied");
  for (int i = 0; i < 2; ++i) graph.bound(Region::weights, "w", DType::f32, {3, 3}, 64);
  EXPECT_NO_THROW(graph.finish());
}

TEST(Validate, SequencesFitThePositionsThatOnlyAnOutputTells) {
  Graph graph = differentiate(example_embedding(6, 3, 4, 7));
  value_of(graph, op_of(graph, OpKind::embedding_backward).outputs[1]).shape = {2, 4};
  try {
    graph.validate();
    FAIL() << "not caught";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a sequence of 3 is longer than the S = 2 positions"), std::string::npos)
        << error.what();
  }
}

TEST(Validate, ProbabilitiesAreMatricesOfTheirSequences) {
  const Graph backward = differentiate(example_block({.core_attention = true}));
  for (const OpKind kind : {OpKind::attention_probabilities, OpKind::attention_mix, OpKind::attention_mix_backward,
                            OpKind::attention_probabilities_backward}) {
    Graph longer = backward;
    op_of(longer, kind).attributes.sequence = 8;
    EXPECT_THROW(longer.validate(), Error) << name_of(kind);
  }
  Graph graph = backward;
  op_of(graph, OpKind::attention_mix).attributes.sequence = 8;
  try {
    graph.validate();
    FAIL() << "not caught";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("S = 4 of one operand is 8 of another"), std::string::npos)
        << error.what();
  }
}

TEST(Validate, TheGradientOfAnOptionalBiasComesOnlyWithIt) {
  GraphBuilder graph("head");
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {6, 4});
  const ValueId table = graph.bound(Region::weights, "table", DType::f32, {9, 4});
  const ValueId bias = graph.bound(Region::weights, "bias", DType::f32, {9}, 9 * 4 * 4);
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {6});
  graph.place(graph.linear_cross_entropy(x, table, targets, bias), Region::loss);
  const Graph backward = differentiate(graph.finish());
  EXPECT_NO_THROW(backward.validate());
  Graph broken = backward, frozen = backward;
  op_of(broken, OpKind::linear_cross_entropy_backward).inputs.pop_back();
  EXPECT_THROW(broken.validate(), Error);
  op_of(frozen, OpKind::linear_cross_entropy_backward).outputs.pop_back();
  EXPECT_NO_THROW(frozen.validate());
}

TEST(Validate, AcceptsADrain) {
  Graph graph;
  graph.name = "drain";
  graph.values = {{"sum", DType::f32, {1, 9}, Region::gradients}, {"rounded", DType::bf16, {1, 9}, Region::drained}};
  graph.ops = {{OpKind::convert, {0}, {1}, {}}};
  EXPECT_NO_THROW(graph.validate());
  graph.values[1].dtype = DType::f32;
  EXPECT_NO_THROW(graph.validate());
  graph.values[1].shape = {1, 8};
  EXPECT_THROW(graph.validate(), Error);
}

}  // namespace
}  // namespace l2l::compiler
