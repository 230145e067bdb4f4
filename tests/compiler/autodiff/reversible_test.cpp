// Backward graphs of reversible layers, against central differences, against the graph that is given the layer's input,
// and op by op.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "compiler/autodiff/differentiate.h"
#include "compiler/fusion/fuse.h"
#include "l2l/errors.h"
#include "tests/compiler/example_graphs.h"
#include "tests/compiler/interpreter.h"

namespace l2l::compiler {
namespace {

constexpr double kReversibleTolerance = 1e-6, kExact = 1e-12;
constexpr double kDifference = 1e-5;

Memory random_memory(const Graph& graph) {
  std::mt19937_64 generator(11);
  std::normal_distribution<double> normal(0, 0.7);
  Memory memory;
  for (const auto& [region, like] : {std::pair{Region::weights, Region::weights},
                                     {Region::input, Region::input},
                                     {Region::output_gradient, Region::output}}) {
    for (std::size_t i = 0; i < region_elements(graph, like); ++i) memory[region].push_back(normal(generator));
  }
  return memory;
}

double weighted_output(const Graph& forward, Memory memory) {
  interpret(forward, memory);
  double sum = 0;
  for (std::size_t i = 0; i < memory[Region::output].size(); ++i) {
    sum += memory[Region::output][i] * memory[Region::output_gradient][i];
  }
  return sum;
}

// Relative to the norm of `b`.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1e9;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::isfinite(difference) ? std::sqrt(difference / norm) : 1e9;
}

std::vector<double> numerical_gradient(const Graph& forward, const Memory& memory, Region region) {
  std::vector<double> gradient(region_elements(forward, region));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    Memory above = memory, below = memory;
    above[region][i] += kDifference;
    below[region][i] -= kDifference;
    gradient[i] = (weighted_output(forward, above) - weighted_output(forward, below)) / (2 * kDifference);
  }
  return gradient;
}

// What the reversed graph computes from the output of the forward graph, without its input.
Memory run_back(const Graph& forward, const Graph& backward, Memory memory) {
  interpret(forward, memory);
  memory[Region::input] = memory[Region::output];
  memory[Region::output].clear();
  interpret(backward, memory);
  return memory;
}

// The reversed graph rebuilds the input, and has the gradients of central differences.
void expect_undone(const Graph& forward) {
  const Memory memory = random_memory(forward);
  Memory back = run_back(forward, differentiate_reversible(forward), memory), before = memory;
  EXPECT_LE(distance(back[Region::output], before[Region::input]), kExact);
  EXPECT_LE(distance(back[Region::input_gradient], numerical_gradient(forward, memory, Region::input)),
            kReversibleTolerance);
  EXPECT_LE(distance(back[Region::gradients], numerical_gradient(forward, memory, Region::weights)),
            kReversibleTolerance);
}

TEST(Reversible, InputAndGradientsComeFromTheOutputAlone) {
  for (const float dropout : {0.0f, 0.25f}) {
    BlockShape shape;
    shape.dropout = dropout;
    expect_undone(example_reversible_block(shape, DType::f32));
  }
}

// Chains of couplings longer than two, with streams in between that never leave the layer, and three streams.
TEST(Reversible, AnyChainOfCouplings) {
  GraphBuilder graph("chain");
  Wire wire(graph, DType::f32);
  const ValueId gain = wire("gain", {3}), square = wire("square", {3, 3});
  std::array<ValueId, 3> streams;
  for (std::size_t i = 0; i < 3; ++i) {
    streams[i] = graph.bound(Region::input, "x", DType::f32, {4, 3}, i * 48);
  }
  for (std::size_t i = 0; i < 7; ++i) {
    const ValueId both = graph.merge_streams(streams[(i + 1) % 3], streams[(i + 2) % 3], DType::f32);
    const ValueId branch = graph.gelu(graph.linear_transposed(graph.rms_norm(both, gain, 1e-5f), square));
    streams[i % 3] = graph.reversible_add(streams[i % 3], branch);
  }
  for (std::size_t i = 0; i < 3; ++i) graph.place(streams[i], Region::output, i * 48);
  expect_undone(graph.finish());
}

// One branch that is added to two streams; a sum whose stream goes on into another one; two sums that begin at the same
// stream; a stream that is itself what is added.
TEST(Reversible, AnySumsOfBranches) {
  using Streams = std::vector<ValueId>;
  const std::pair<const char*, std::function<Streams(GraphBuilder&, const Streams&, ValueId)>> layers[] = {
      {"two streams",
       [](GraphBuilder& graph, const Streams& x, ValueId w) -> Streams {
         const ValueId f = graph.gelu(graph.linear_transposed(x[2], w)), g = graph.gelu(f);
         const ValueId first = graph.reversible_add(x[0], f), second = graph.reversible_add(x[1], g);
         return {first, second, graph.reversible_add(x[2], graph.linear_transposed(first, w))};
       }},
      {"goes on",
       [](GraphBuilder& graph, const Streams& x, ValueId w) -> Streams {
         const ValueId y = graph.reversible_add(x[0], graph.gelu(graph.linear_transposed(x[1], w)));
         const ValueId z = graph.reversible_add(y, graph.linear_transposed(x[2], w));
         return {y, z, graph.reversible_add(x[1], graph.gelu(z)), graph.reversible_add(x[2], graph.gelu(y))};
       }},
      {"forks",
       [](GraphBuilder& graph, const Streams& x, ValueId w) -> Streams {
         const ValueId y = graph.reversible_add(x[0], graph.gelu(graph.linear_transposed(x[1], w)));
         const ValueId z = graph.reversible_add(x[0], graph.linear_transposed(x[2], w));
         return {y, z, graph.reversible_add(x[1], graph.gelu(z)), graph.reversible_add(x[2], graph.gelu(y))};
       }},
      {"is added",
       [](GraphBuilder& graph, const Streams& x, ValueId w) -> Streams {
         const ValueId first = graph.reversible_add(x[0], graph.linear_transposed(graph.gelu(x[1]), w));
         const ValueId second = graph.reversible_add(x[1], first);
         return {first, second, graph.reversible_add(x[2], graph.gelu(second))};
       }},
      {"begins",
       [](GraphBuilder& graph, const Streams& x, ValueId w) -> Streams {
         const ValueId begun = graph.begin_stream(graph.gelu(graph.linear_transposed(x[0], w)), DType::f32);
         const ValueId more = graph.reversible_add(begun, graph.linear_transposed(x[1], w));
         return {more, graph.reversible_add(x[0], graph.gelu(x[2])), graph.reversible_add(x[1], graph.gelu(more)),
                 graph.reversible_add(x[2], graph.gelu(more))};
       }},
  };
  for (const auto& [name, layer] : layers) {
    SCOPED_TRACE(name);
    GraphBuilder graph("layer");
    Wire wire(graph, DType::f32);
    const ValueId w = wire("w", {3, 3});
    Streams x;
    for (std::size_t i = 0; i < 3; ++i) x.push_back(graph.bound(Region::input, "x", DType::f32, {4, 3}, i * 48));
    const Streams y = layer(graph, x, w);
    for (std::size_t i = 0; i < y.size(); ++i) graph.place(y[i], Region::output, i * 48);
    expect_undone(graph.finish());
  }
}

TEST(Reversible, SplitAndMergedStreamsHaveTheirGradients) {
  GraphBuilder graph("ends");
  Wire wire(graph, DType::f32);
  const ValueId w = wire("w", {3, 3});
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {4, 3});
  const auto [a, b] = graph.split_streams(graph.gelu(x), DType::f32);
  const ValueId y = graph.reversible_add(a, graph.linear_transposed(graph.read_stream(b, DType::f32), w));
  graph.place(graph.gelu(graph.merge_streams(y, b, DType::f32)), Region::output);
  const Graph forward = graph.finish();
  Memory memory = random_memory(forward), after = memory;
  interpret(differentiate(forward), after);
  EXPECT_LE(distance(after[Region::input_gradient], numerical_gradient(forward, memory, Region::input)),
            kReversibleTolerance);
  EXPECT_LE(distance(after[Region::gradients], numerical_gradient(forward, memory, Region::weights)),
            kReversibleTolerance);
}

std::vector<OpKind> op_kinds(const Graph& graph) {
  std::vector<OpKind> kinds;
  for (const Op& op : graph.ops) kinds.push_back(op.kind);
  return kinds;
}

const std::set<OpKind> kinds_of_gradients = {
    OpKind::bias_gradient,      OpKind::gelu_backward,       OpKind::gelu_backward_bias,      OpKind::dropout_bias,
    OpKind::attention_backward, OpKind::layer_norm_backward, OpKind::layer_norm_backward_add, OpKind::add};

// Every op of a branch runs once, for the stream and the gradients; the second branch is finished before the first
// begins.
TEST(Reversible, InverseAndGradientsShareOneRecomputation) {
  using enum OpKind;
  const std::vector<OpKind> expected = {read_stream,
                                        layer_norm,
                                        matmul,
                                        gelu,
                                        matmul,
                                        dropout,
                                        reversible_add,
                                        dropout,
                                        matmul,
                                        bias_gradient,
                                        matmul,
                                        gelu_backward,
                                        matmul,
                                        bias_gradient,
                                        matmul,
                                        layer_norm_backward,
                                        add,
                                        read_stream,
                                        layer_norm,
                                        matmul,
                                        attention,
                                        matmul,
                                        dropout,
                                        reversible_add,
                                        dropout,
                                        matmul,
                                        bias_gradient,
                                        matmul,
                                        attention_backward,
                                        matmul,
                                        bias_gradient,
                                        matmul,
                                        layer_norm_backward,
                                        add};
  const Graph forward = example_reversible_block({.dtype = DType::bf16}, DType::i32);
  EXPECT_EQ(op_kinds(differentiate_reversible(forward)), expected);
}

// A rebuilt input with the same bits must give gradients with the same bits.
TEST(Reversible, GradientOpsAreThoseOfTheGraphThatIsGivenItsInput) {
  const Graph forward = example_reversible_block({.dtype = DType::bf16}, DType::i32);
  const auto gradient_ops = [](const Graph& graph) {
    std::vector<std::string> ops;
    for (const Op& op : graph.ops) {
      if (graph.value(op.outputs[0]).name.rfind("d ", 0) != 0) continue;
      std::string text(name_of(op.kind));
      for (const ValueId id : op.inputs) text += " " + graph.value(id).name;
      ops.push_back(text);
    }
    return ops;
  };
  const std::vector<std::string> stored = gradient_ops(differentiate(forward));
  EXPECT_GT(stored.size(), 15u);
  EXPECT_EQ(gradient_ops(differentiate_reversible(forward)), stored);
}

TEST(Reversible, RegionsOfABlock) {
  const Graph forward = example_reversible_block({.dtype = DType::bf16}, DType::i32);
  const Graph backward = differentiate_reversible(forward);
  const Bytes elements = 8 * 6;
  EXPECT_EQ(backward.region_bytes(Region::input), 2 * 4 * elements);
  EXPECT_EQ(backward.region_bytes(Region::output), 2 * 4 * elements);
  EXPECT_EQ(backward.region_bytes(Region::output_gradient), 2 * 2 * elements);
  EXPECT_EQ(backward.region_bytes(Region::input_gradient), 2 * 2 * elements);
  EXPECT_EQ(backward.region_bytes(Region::gradients), 2 * forward.region_bytes(Region::weights));
  EXPECT_EQ(differentiate(forward).region_bytes(Region::output), 0u);
}

// The ops of a branch after fusion must be the same in the forward and the backward graph, for the same bits.
TEST(Reversible, BranchesAreFusedAlikeOnBothWays) {
  const Graph forward = example_reversible_block({.dtype = DType::bf16}, DType::i32);
  std::vector<OpKind> in_forward = op_kinds(fuse(forward)), in_backward;
  for (const Op& op : fuse(differentiate_reversible(forward)).ops) {
    if (op.attributes.accumulate || op.attributes.transpose_b || kinds_of_gradients.contains(op.kind)) continue;
    in_backward.push_back(op.kind);
  }
  const auto second = std::find(in_forward.begin(), in_forward.end(), OpKind::reversible_add) + 1;
  std::rotate(in_forward.begin(), second, in_forward.end());  // the second branch comes first
  EXPECT_EQ(in_backward, in_forward);
}

TEST(Reversible, FusedGraphsMeanTheSame) {
  const Graph forward = example_reversible_block({}, DType::f32);
  const Graph backward = differentiate_reversible(forward), fused = fuse(backward);
  EXPECT_LT(fused.ops.size(), backward.ops.size());
  for (const Region region : {Region::input, Region::output, Region::input_gradient, Region::gradients}) {
    EXPECT_EQ(fused.region_bytes(region), backward.region_bytes(region)) << name_of(region);
  }
}

// Negative controls: an inverse that adds, another dropout mask in the second run, a missing stream. Each must change
// the rebuilt input or the gradients.
TEST(ReversibleNegativeControl, AnyMistakeIsCaught) {
  const Graph forward = example_reversible_block({}, DType::f32);
  Memory memory = random_memory(forward);
  const Graph backward = differentiate_reversible(forward);
  Memory honest = run_back(forward, backward, memory);
  int broken_graphs = 0;
  for (std::size_t i = 0; i < backward.ops.size(); ++i) {
    Graph broken = backward;
    Op& op = broken.ops[i];
    if (op.kind == OpKind::reversible_add) {
      op.attributes.inverse = false;
    } else if (op.kind == OpKind::dropout || op.kind == OpKind::attention) {
      op.attributes.rng_op += 10;
    } else if (op.kind == OpKind::add) {
      op = {OpKind::dropout, {op.inputs[1]}, op.outputs, {}};  // of probability 0: a copy
    } else {
      continue;
    }
    ++broken_graphs;
    Memory after = run_back(forward, broken, memory);
    const double worst = std::max({distance(after[Region::output], honest[Region::output]),
                                   distance(after[Region::input_gradient], honest[Region::input_gradient]),
                                   distance(after[Region::gradients], honest[Region::gradients])});
    EXPECT_GT(worst, 100 * kReversibleTolerance) << "op " << i;
  }
  EXPECT_EQ(broken_graphs, 9);
}

TEST(Streams, AreOfTheirOwnTypesAlone) {
  const auto refused = [](DType stream, DType other, DType branch) {
    GraphBuilder graph("layer");
    const ValueId a = graph.bound(Region::input, "a", stream, {2, 3});
    const ValueId b = graph.bound(Region::input, "b", other, {2, 3}, 64);
    const ValueId c = graph.bound(Region::normed, "c", branch, {2, 3});
    try {
      graph.reversible_add(a, c);
      graph.merge_streams(a, b, branch);
    } catch (const BadInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(DType::i32, DType::i32, DType::bf16), "");
  EXPECT_EQ(refused(DType::f32, DType::f32, DType::f32), "");
  EXPECT_NE(refused(DType::bf16, DType::bf16, DType::bf16).find("must be a stream: f32 or i32"), std::string::npos);
  EXPECT_NE(refused(DType::i32, DType::f32, DType::bf16).find("must be i32"), std::string::npos);
  GraphBuilder graph("gradient");
  const ValueId x = graph.bound(Region::input, "x", DType::bf16, {2, 3});
  EXPECT_NO_THROW(graph.split_streams(x, DType::bf16));
  EXPECT_THROW(graph.split_streams(x, DType::f16), BadInput);
}

template <typename Build>
std::string error_text(const Build& build) {
  GraphBuilder graph("layer");
  const ValueId x1 = graph.bound(Region::input, "x1", DType::f32, {2, 3});
  const ValueId x2 = graph.bound(Region::input, "x2", DType::f32, {2, 3}, 24);
  build(graph, x1, x2);
  try {
    differentiate_reversible(graph.finish());
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReversibleErrors, ABranchOfItsOwnStream) {
  const std::string error = error_text([](GraphBuilder& graph, ValueId x1, ValueId x2) {
    graph.place(graph.reversible_add(x1, graph.gelu(x2)), Region::output);
    graph.place(graph.reversible_add(x2, graph.gelu(x2)), Region::output, 24);
  });
  EXPECT_NE(error.find("layer: gelu of a branch needs x2 f32 [2, 3], which is not rebuilt by then"), std::string::npos)
      << error;
}

TEST(ReversibleErrors, AStreamThatDoesNotLeave) {
  const std::string error = error_text([](GraphBuilder& graph, ValueId x1, ValueId x2) {
    graph.reversible_add(x1, graph.gelu(x2));
    graph.place(graph.reversible_add(x2, graph.gelu(x1)), Region::output, 24);
  });
  EXPECT_NE(error.find("which is not rebuilt by then"), std::string::npos) << error;
}

TEST(ReversibleErrors, AnEndThatIsNoSum) {
  const std::string error = error_text([](GraphBuilder& graph, ValueId x1, ValueId x2) {
    graph.place(graph.gelu(graph.reversible_add(x1, graph.gelu(x2))), Region::output);
  });
  EXPECT_NE(error.find("layer: gelu stands behind the last sum of a reversible layer"), std::string::npos) << error;
}

}  // namespace
}  // namespace l2l::compiler
