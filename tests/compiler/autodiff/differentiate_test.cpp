// The structure of derived backward graphs; gradient_test.cpp checks their values.
#include "compiler/autodiff/differentiate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "l2l/errors.h"
#include "tests/compiler/example_graphs.h"

namespace l2l::compiler {
namespace {

std::vector<OpKind> kinds(const Graph& graph) {
  std::vector<OpKind> kinds;
  for (const Op& op : graph.ops) kinds.push_back(op.kind);
  return kinds;
}

std::vector<const Value*> values_in(const Graph& graph, Region region) {
  std::vector<const Value*> found;
  for (const Value& value : graph.values) {
    if (value.region == region) found.push_back(&value);
  }
  return found;
}

TEST(Differentiate, BlockRecomputesWhatItsProductsReadAndNoMore) {
  using enum OpKind;
  const std::vector<OpKind> expected = {
      // recomputed: up to gelu; the last projection, its dropout and the last add are read by nobody
      layer_norm, matmul, attention, matmul, dropout, add, layer_norm, matmul, gelu,
      // mlp
      dropout, matmul, bias_gradient, matmul, gelu_backward, matmul, bias_gradient, matmul, layer_norm_backward, add,
      // attention
      dropout, matmul, bias_gradient, matmul, attention_backward, matmul, bias_gradient, matmul, layer_norm_backward,
      add};
  const Graph backward = differentiate(example_block({}));
  EXPECT_EQ(backward.name, "block backward");
  EXPECT_EQ(kinds(backward), expected);
}

// Korthikanti et al., 2022, section 4.1: of what is quadratic in the sequence, the backward pass reads the output of
// softmax and that of its dropout, 2 a s^2 b bytes each in 16 bits; scores are no values at all, and the mask (a byte
// for each element there) is drawn again.
TEST(Differentiate, CoreAttentionReadsTwoMatricesPerHead) {
  using enum OpKind;
  const BlockShape shape{.dtype = DType::bf16, .core_attention = true};
  const Graph backward = differentiate(example_block(shape));
  const auto op_of = [&](const auto& is) { return *std::find_if(backward.ops.begin(), backward.ops.end(), is); };
  const Op mix = op_of([](const Op& op) { return op.kind == attention_mix_backward; });
  const Op of_scores = op_of([](const Op& op) { return op.kind == attention_probabilities_backward; });
  for (const auto& [reader, maker] : {std::pair{mix, dropout}, {of_scores, attention_probabilities}}) {
    const ValueId matrix = reader.inputs[1];
    EXPECT_EQ(op_of([&](const Op& op) { return op.outputs[0] == matrix; }).kind, maker);
    EXPECT_EQ(backward.value(matrix).bytes(),
              static_cast<Bytes>(2 * shape.heads * shape.sequence * shape.sequence * shape.sequences));
  }
  const std::vector<OpKind> expected = {
      layer_norm, matmul, attention_probabilities, dropout, attention_mix, matmul, dropout, add, layer_norm, matmul,
      gelu,
      // mlp
      dropout, matmul, bias_gradient, matmul, gelu_backward, matmul, bias_gradient, matmul, layer_norm_backward, add,
      // attention: no sum of shares of dqkv
      dropout, matmul, bias_gradient, matmul, attention_mix_backward, dropout, attention_probabilities_backward, matmul,
      bias_gradient, matmul, layer_norm_backward, add};
  EXPECT_EQ(kinds(backward), expected);
}

TEST(Differentiate, HeadRunsItsLossOnceAndEmbeddingRecomputesNothing) {
  using enum OpKind;
  EXPECT_EQ(kinds(differentiate(example_head(6, 4, 9))),
            (std::vector<OpKind>{layer_norm, linear_cross_entropy_backward, layer_norm_backward}));
  EXPECT_EQ(kinds(differentiate(example_embedding(6, 3, 4, 7))), (std::vector<OpKind>{dropout, embedding_backward}));
}

TEST(Differentiate, RegionsOfABlock) {
  const Graph forward = example_block({.dtype = DType::bf16});
  const Graph backward = differentiate(forward);
  EXPECT_TRUE(values_in(backward, Region::output).empty());
  ASSERT_EQ(values_in(backward, Region::output_gradient).size(), 1u);
  EXPECT_EQ(values_in(backward, Region::output_gradient)[0]->shape, (Shape{8, 6}));
  EXPECT_EQ(values_in(backward, Region::output_gradient)[0]->dtype, DType::bf16);
  ASSERT_EQ(values_in(backward, Region::input_gradient).size(), 1u);
  EXPECT_EQ(backward.value(backward.ops.back().outputs[0]).region, Region::input_gradient);
  EXPECT_EQ(backward.region_bytes(Region::gradients), 2 * forward.region_bytes(Region::weights));

  std::map<Bytes, Shape> wire;
  for (const Value* weight : values_in(forward, Region::weights)) wire[weight->offset] = weight->shape;
  ASSERT_EQ(values_in(backward, Region::gradients).size(), wire.size());
  for (const Value* gradient : values_in(backward, Region::gradients)) {
    EXPECT_EQ(gradient->dtype, DType::f32);
    EXPECT_EQ(gradient->shape, wire.at(gradient->offset / 2)) << gradient->name;
  }
}

TEST(Differentiate, NoInputGradientWithoutInput) {
  const Graph backward = differentiate(example_embedding(6, 3, 4, 7));
  EXPECT_TRUE(values_in(backward, Region::input_gradient).empty());
  EXPECT_EQ(values_in(backward, Region::output_gradient).size(), 1u);
}

// The relay does not fetch the embedding's weights a second time.
TEST(Differentiate, RegionsThatNoOpReadAreNotAskedFor) {
  EXPECT_EQ(differentiate(example_embedding(6, 3, 4, 7)).region_bytes(Region::weights), 0u);
  const Graph forward = example_block({}), backward = differentiate(forward);
  // All but the bias of the last projection, which is not recomputed.
  EXPECT_EQ(values_in(backward, Region::weights).size(), values_in(forward, Region::weights).size() - 1);
}

TEST(Differentiate, LossGraphReadsNoOutputGradientAndWritesTheLoss) {
  const Graph backward = differentiate(example_head(6, 4, 9));
  EXPECT_TRUE(values_in(backward, Region::output_gradient).empty());
  ASSERT_EQ(values_in(backward, Region::loss).size(), 1u);
  EXPECT_EQ(values_in(backward, Region::input_gradient).size(), 1u);
}

TEST(Differentiate, RandomOpsKeepTheirKeys) {
  const Graph forward = example_block({}), backward = differentiate(forward);
  std::map<std::uint32_t, float> keys;
  for (const Op& op : forward.ops) {
    if (op.attributes.rng_op > 0) keys[op.attributes.rng_op] = op.attributes.probability;
  }
  ASSERT_EQ(keys.size(), 3u);
  std::map<std::uint32_t, int> uses;
  for (const Op& op : backward.ops) {
    if (op.attributes.rng_op == 0) continue;
    ASSERT_TRUE(keys.contains(op.attributes.rng_op)) << name_of(op.kind);
    EXPECT_EQ(op.attributes.probability, keys[op.attributes.rng_op]);
    ++uses[op.attributes.rng_op];
  }
  // Attention and the first dropout are recomputed and differentiated, the last dropout only differentiated.
  EXPECT_EQ(uses, (std::map<std::uint32_t, int>{{1, 2}, {2, 2}, {3, 1}}));
}

// Weight gradients follow the op that makes the gradient they read, with only weight gradients between.
TEST(Differentiate, WeightGradientsComeFirst) {
  const Graph backward = differentiate(example_block({}));
  const auto gradient_of_weight = [&](std::size_t i) {
    return backward.value(backward.ops[i].outputs[0]).region == Region::gradients;
  };
  int seen = 0;
  for (std::size_t i = 1; i < backward.ops.size(); ++i) {
    if (!gradient_of_weight(i)) continue;
    ++seen;
    std::size_t maker = i - 1;
    while (gradient_of_weight(maker)) --maker;
    const std::vector<ValueId>& made = backward.ops[maker].outputs;
    EXPECT_TRUE(std::any_of(made.begin(), made.end(),
                            [&](ValueId id) {
                              const std::vector<ValueId>& read = backward.ops[i].inputs;
                              return std::find(read.begin(), read.end(), id) != read.end();
                            }))
        << "op " << i;
  }
  EXPECT_EQ(seen, 8);
}

TEST(Differentiate, GradientsAreSummedInReverseOrderOfConsumption) {
  GraphBuilder graph("three uses");
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {2, 3});
  const ValueId first = graph.gelu(x), second = graph.dropout(x, 0.5f), third = graph.gelu(x);
  graph.place(graph.add(graph.add(first, second), third), Region::output);
  const Graph backward = differentiate(graph.finish());
  using enum OpKind;
  ASSERT_EQ(kinds(backward), (std::vector<OpKind>{gelu_backward, dropout, add, gelu_backward, add}));
  EXPECT_EQ(backward.ops[2].inputs, (std::vector<ValueId>{backward.ops[0].outputs[0], backward.ops[1].outputs[0]}));
  EXPECT_EQ(backward.ops[4].inputs, (std::vector<ValueId>{backward.ops[2].outputs[0], backward.ops[3].outputs[0]}));
}

template <typename Build>
std::string error_of(const Build& build) {
  try {
    differentiate(build());
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(DifferentiateErrors, NothingToDifferentiate) {
  const std::string error = error_of([] {
    GraphBuilder graph("lost");
    graph.gelu(graph.bound(Region::input, "x", DType::f32, {2, 3}));
    return graph.finish();
  });
  EXPECT_NE(error.find("lost: place exactly one value in loss, or values in output"), std::string::npos) << error;
}

TEST(DifferentiateErrors, ParameterThatIsNoWeight) {
  const std::string error = error_of([] {
    GraphBuilder graph("norm");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {2, 3});
    const ValueId gain = graph.bound(Region::input, "gain", DType::f32, {3}, 24);
    const ValueId bias = graph.bound(Region::weights, "bias", DType::f32, {3});
    graph.place(graph.layer_norm(x, gain, bias, 1e-5f), Region::output);
    return graph.finish();
  });
  EXPECT_NE(error.find("norm: gain f32 [3] is used as a parameter and must live in weights"), std::string::npos)
      << error;
}

TEST(DifferentiateErrors, WeightThatNoOpAccumulates) {
  const std::string error = error_of([] {
    GraphBuilder graph("shifted");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {2, 3});
    const ValueId shift = graph.bound(Region::weights, "shift", DType::f32, {2, 3});
    graph.place(graph.gelu(graph.add(x, shift)), Region::output);
    return graph.finish();
  });
  EXPECT_NE(error.find("shifted: shift f32 [2, 3] is a weight"), std::string::npos) << error;
}

// A sum hands on the gradient of its result, which is copied to where that of the input is wanted.
TEST(Differentiate, AnInputsGradientMayBeThatOfTheOutput) {
  GraphBuilder graph("sum");
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {2, 3});
  const ValueId y = graph.bound(Region::input, "y", DType::f32, {2, 3}, 64);
  graph.place(graph.add(x, y), Region::output);
  const Graph backward = differentiate(graph.finish());
  ASSERT_EQ(backward.ops.size(), 2u);
  for (const Op& op : backward.ops) {
    EXPECT_EQ(op.kind, OpKind::reshape);
    EXPECT_EQ(backward.value(op.inputs[0]).region, Region::output_gradient);
    EXPECT_EQ(backward.value(op.outputs[0]).region, Region::input_gradient);
  }
}

TEST(DifferentiateErrors, AnInputThatTheResultDoesNotDependOn) {
  const std::string error = error_of([] {
    GraphBuilder graph("plain");
    const ValueId x = graph.bound(Region::input, "x", DType::f32, {2, 3});
    const ValueId t = graph.bound(Region::tokens, "t", DType::i32, {2});
    const ValueId table = graph.bound(Region::weights, "table", DType::f32, {4, 3});
    const ValueId places = graph.bound(Region::weights, "places", DType::f32, {2, 3}, 48);
    graph.tanh(x);
    graph.place(graph.embedding(t, table, places, 2), Region::output);
    return graph.finish();
  });
  EXPECT_NE(error.find("plain: the result does not depend on the input x f32 [2, 3]"), std::string::npos) << error;
}

TEST(DifferentiateErrors, OpWithoutDerivative) {
  const std::string error = error_of([] {
    Graph graph = example_block({});
    Graph backward = differentiate(graph);
    for (Value& value : backward.values) {
      if (value.region == Region::input_gradient) value.region = Region::output;
    }
    backward.name = "second order";
    return backward;
  });
  EXPECT_NE(error.find("second order: layer_norm_backward: has no derivative"), std::string::npos) << error;
}

}  // namespace
}  // namespace l2l::compiler
