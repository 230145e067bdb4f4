// Gradients of derived backward graphs against central differences of the forward graph, both in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "compiler/autodiff/differentiate.h"
#include "tests/compiler/example_graphs.h"
#include "tests/compiler/interpreter.h"

namespace l2l::compiler {
namespace {

constexpr double kTolerance = 1e-6;
constexpr double kStep = 1e-5;
constexpr double kAlreadyThere = 0.5;  // what the accumulators hold before

// Random weights and input around values that keep every op away from its flat ends; tokens and targets of
// `vocabulary`.
Memory random_memory(const Graph& graph, std::size_t vocabulary) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal(0, 0.7);
  Memory memory;
  for (const Region region : {Region::weights, Region::input, Region::output_gradient}) {
    const std::size_t elements = region_elements(graph, region == Region::output_gradient ? Region::output : region);
    for (std::size_t i = 0; i < elements; ++i) memory[region].push_back(normal(generator));
  }
  for (const Region region : {Region::tokens, Region::targets}) {
    for (std::size_t i = 0; i < region_elements(graph, region); ++i) {
      memory[region].push_back(static_cast<double>(generator() % vocabulary));
    }
  }
  if (!memory[Region::targets].empty()) memory[Region::targets][1] = -1;
  return memory;
}

// The function that the backward graph differentiates: the loss, or the output times output_gradient.
double objective(const Graph& forward, Memory& memory) {
  interpret(forward, memory);
  if (!memory[Region::loss].empty()) return memory[Region::loss][0];
  double sum = 0;
  for (std::size_t i = 0; i < memory[Region::output].size(); ++i) {
    sum += memory[Region::output][i] * memory[Region::output_gradient][i];
  }
  return sum;
}

std::vector<double> central_differences(const Graph& forward, Memory memory, Region region) {
  std::vector<double> gradient(region_elements(forward, region));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double value = memory[region][i];
    memory[region][i] = value + kStep;
    const double above = objective(forward, memory);
    memory[region][i] = value - kStep;
    const double below = objective(forward, memory);
    memory[region][i] = value;
    gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

// The gradients of one graph, by central differences: computed once, compared with any backward graph.
class Oracle {
 public:
  explicit Oracle(const Graph& forward, std::size_t vocabulary = 1)
      : forward_(forward),
        memory_(random_memory(forward, vocabulary)),
        weights_(central_differences(forward, memory_, Region::weights)),
        input_(central_differences(forward, memory_, Region::input)) {}

  // The largest error of any value's gradient, relative to the norm of that gradient.
  double error_of(const Graph& backward) const {
    Memory memory = memory_;
    memory[Region::gradients].assign(weights_.size(), kAlreadyThere);
    interpret(backward, memory);
    for (double& gradient : memory[Region::gradients]) gradient -= kAlreadyThere;
    double worst = 0;
    for (const Value& value : forward_.values) {
      if (value.region == Region::weights) worst = std::max(worst, error(value, memory[Region::gradients], weights_));
      if (value.region == Region::input) worst = std::max(worst, error(value, memory[Region::input_gradient], input_));
    }
    return worst;
  }

  double loss_after(const Graph& backward) const {
    Memory memory = memory_;
    interpret(backward, memory);
    return memory[Region::loss][0];
  }
  double loss() const {
    Memory memory = memory_;
    return objective(forward_, memory);
  }

 private:
  static double error(const Value& value, const std::vector<double>& actual, const std::vector<double>& expected) {
    const std::size_t first = value.offset / size_of(value.dtype);
    double difference = 0, norm = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(value.shape.elements()); ++i) {
      if (i >= actual.size()) return 1;
      difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    const double relative = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-3);
    return std::isfinite(relative) ? relative : 1e9;
  }

  const Graph& forward_;
  Memory memory_;
  std::vector<double> weights_, input_;
};

// Residuals, an input and an intermediate with several consumers, a value added to itself, a square weight used three
// times and in both forms, norms, dropout.
Graph tangle(DType dtype) {
  GraphBuilder graph("tangle");
  Wire wire(graph, dtype);
  const ValueId x = graph.bound(Region::input, "x", dtype, {5, 4});
  const ValueId square = wire("square", {4, 4}), bias = wire("square.bias", {4});
  const ValueId gain = wire("gain", {4}), shift = wire("shift", {4});
  const ValueId narrow = wire("narrow", {3, 4}), widen = wire("widen", {3, 4}), widen_bias = wire("widen.bias", {4});
  const ValueId a = graph.gelu(graph.linear(x, square, bias));
  const ValueId b = graph.linear_transposed(graph.add(x, a), square);
  const ValueId c = graph.layer_norm(graph.dropout(graph.add(b, x), 0.3f), gain, shift, 1e-5f);
  const ValueId d = graph.linear(graph.gelu(graph.linear_transposed(c, narrow)), widen, widen_bias);
  const ValueId e = graph.layer_norm(graph.add(graph.add(d, d), a), gain, shift, 1e-5f);
  graph.place(graph.add(graph.linear(graph.dropout(e, 0.3f), square, bias), graph.add(c, x)), Region::output);
  return graph.finish();
}

TEST(Gradient, TangleOfResidualsAndSharedWeights) {
  const Graph forward = tangle(DType::f32);
  EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance);
}

TEST(Gradient, OffsetsOfABf16WireAreCountedInElements) {
  const Graph forward = tangle(DType::bf16);
  EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance);
}

TEST(Gradient, Gpt2Block) {
  for (const float dropout : {0.0f, 0.25f}) {
    BlockShape shape;
    shape.dropout = dropout;
    const Graph forward = example_block(shape);
    EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance) << "dropout " << dropout;
  }
}

TEST(Gradient, BertBlock) {
  for (const float dropout : {0.0f, 0.25f}) {
    BlockShape shape;
    shape.dropout = dropout;
    const Graph forward = example_bert_block(shape);
    EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance) << "dropout " << dropout;
  }
}

TEST(Gradient, BlocksOfCoreAttention) {
  for (const float dropout : {0.0f, 0.25f}) {
    const BlockShape shape{.hidden = 8, .dropout = dropout, .core_attention = true};
    for (const Graph& forward : {example_block(shape), example_bert_block(shape), example_llama_block(shape)}) {
      EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance)
          << forward.name << ", dropout " << dropout;
    }
  }
}

TEST(Gradient, LlamaBlock) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Graph forward = example_llama_block(dtype);
    EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance);
  }
}

TEST(Gradient, HeadWithABiasOfTheVocabulary) {
  GraphBuilder graph("head");
  Wire wire(graph, DType::f32);
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {6, 4});
  const ValueId table = wire("table", {9, 4}), bias = wire("bias", {9});
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {6});
  graph.place(graph.linear_cross_entropy(graph.gelu(x, /*exact=*/true), table, targets, bias), Region::loss);
  const Graph forward = graph.finish();
  EXPECT_LE(Oracle(forward, 9).error_of(differentiate(forward)), kTolerance);
}

TEST(Gradient, EmbeddingWithOneTypeForAllTokens) {
  GraphBuilder graph("embedding");
  Wire wire(graph, DType::f32);
  const ValueId tokens = graph.bound(Region::tokens, "tokens", DType::i32, {6});
  const ValueId table = wire("table", {7, 4}), places = wire("places", {3, 4}), types = wire("types", {2, 4});
  graph.place(graph.add_positions(graph.embedding(tokens, table, places, 3), types, 1), Region::output);
  const Graph forward = graph.finish();
  EXPECT_LE(Oracle(forward, 7).error_of(differentiate(forward)), kTolerance);
}

TEST(Gradient, HeadAlsoWritesTheLoss) {
  const Graph forward = example_head(6, 4, 9);
  const Oracle oracle(forward, 9);
  const Graph backward = differentiate(forward);
  EXPECT_LE(oracle.error_of(backward), kTolerance);
  EXPECT_NEAR(oracle.loss_after(backward), oracle.loss(), 1e-12);
}

TEST(Gradient, Embedding) {
  const Graph forward = example_embedding(6, 3, 4, 7);
  EXPECT_LE(Oracle(forward, 7).error_of(differentiate(forward)), kTolerance);
}

// Products whose first factor is the weight, and products of two activations.
TEST(Gradient, ProductsOfEveryForm) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool weight_first : {false, true}) {
        Graph forward;
        forward.name = "product";
        const Shape a = transpose_a ? Shape{2, 3} : Shape{3, 2}, b = transpose_b ? Shape{4, 2} : Shape{2, 4};
        forward.values = {{"a", DType::f32, a, weight_first ? Region::weights : Region::input},
                          {"b", DType::f32, b, weight_first ? Region::input : Region::weights},
                          {"y", DType::f32, {3, 4}, Region::output}};
        forward.ops = {{OpKind::matmul, {0, 1}, {2}, {.transpose_a = transpose_a, .transpose_b = transpose_b}}};
        EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance)
            << transpose_a << transpose_b << weight_first;
      }
    }
  }
  GraphBuilder square("square");
  const ValueId x = square.bound(Region::input, "x", DType::f32, {3, 4});
  square.place(square.linear_transposed(x, x), Region::output);
  const Graph forward = square.finish();
  EXPECT_LE(Oracle(forward).error_of(differentiate(forward)), kTolerance);
}

// Negative controls: backward graphs that still validate, with one mistake each. `break_op` changes op `i` of the graph
// and returns whether it did.
using BreakOp = std::function<bool(Graph& graph, std::size_t i)>;

void expect_each_caught(const Graph& forward, const BreakOp& break_op, std::size_t at_least) {
  const Oracle oracle(forward);
  const Graph backward = differentiate(forward);
  std::size_t broken_graphs = 0;
  for (std::size_t i = 0; i < backward.ops.size(); ++i) {
    Graph broken = backward;
    if (!break_op(broken, i)) continue;
    ++broken_graphs;
    EXPECT_NO_THROW(broken.validate());
    EXPECT_GT(oracle.error_of(broken), 100 * kTolerance) << "op " << i << " of " << forward.name;
  }
  EXPECT_GE(broken_graphs, at_least);
}

TEST(GradientNegativeControl, AnyMissingAddIsCaught) {
  for (const std::size_t kept : {0u, 1u}) {
    const auto pass_one_side = [&](Graph& graph, std::size_t i) {
      Op& op = graph.ops[i];
      if (op.kind != OpKind::add) return false;
      op = {OpKind::dropout, {op.inputs[kept]}, op.outputs, {}};  // of probability 0: a copy
      return true;
    };
    expect_each_caught(example_block({}), pass_one_side, 3);
    expect_each_caught(tangle(DType::f32), pass_one_side, 5);
  }
}

TEST(GradientNegativeControl, AnyOtherDropoutKeyIsCaught) {
  const auto other_key = [](Graph& graph, std::size_t i) {
    Op& op = graph.ops[i];
    op.attributes.rng_op += 10;
    return op.kind == OpKind::dropout || op.kind == OpKind::attention || op.kind == OpKind::attention_backward;
  };
  expect_each_caught(example_block({}), other_key, 5);
}

// A rotation the other way, GELU or attention of the other kind.
TEST(GradientNegativeControl, AnyOtherAttributeIsCaught) {
  const auto other = [](Graph& graph, std::size_t i) {
    Op& op = graph.ops[i];
    op.attributes.inverse = !op.attributes.inverse;
    op.attributes.exact = !op.attributes.exact;
    op.attributes.causal = !op.attributes.causal;
    return op.kind == OpKind::rotary || op.kind == OpKind::gelu_backward || op.kind == OpKind::attention_backward;
  };
  expect_each_caught(example_llama_block(DType::f32), other, 3);
  expect_each_caught(example_bert_block({}), other, 2);
}

// The op that adds to the gradient of the values drops it, or rows see other rows, or an op reads wrong probabilities.
TEST(GradientNegativeControl, AnyMistakeInCoreAttentionIsCaught) {
  const BlockShape shape{.core_attention = true};
  const auto forget = [](Graph& graph, std::size_t i) {
    Op& op = graph.ops[i];
    if (op.kind != OpKind::attention_probabilities_backward) return false;
    op.inputs.pop_back();
    return true;
  };
  const auto see_all = [](Graph& graph, std::size_t i) {
    Op& op = graph.ops[i];
    op.attributes.causal = false;
    return op.kind == OpKind::attention_probabilities;
  };
  const auto other_probabilities = [](Graph& graph, std::size_t i) {  // before dropout instead of behind it, or so
    Op& op = graph.ops[i];
    const auto dropped =
        std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& other) { return other.kind == OpKind::dropout; });
    const bool mix = op.kind == OpKind::attention_mix_backward;
    if (!mix && op.kind != OpKind::attention_probabilities_backward) return false;
    op.inputs[1] = mix ? dropped->inputs[0] : dropped->outputs[0];
    return true;
  };
  expect_each_caught(example_block(shape), forget, 1);
  expect_each_caught(example_block(shape), see_all, 1);
  expect_each_caught(example_block(shape), other_probabilities, 2);
}

TEST(GradientNegativeControl, AnyMissingWeightGradientIsCaught) {
  const auto remove = [](Graph& graph, std::size_t i) {
    const Op& op = graph.ops[i];
    if (graph.value(op.outputs[0]).region != Region::gradients) return false;
    graph.ops.erase(graph.ops.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  };
  expect_each_caught(example_block({}), remove, 8);
  expect_each_caught(tangle(DType::f32), remove, 7);
}

}  // namespace
}  // namespace l2l::compiler
