// Which ops fuse() joins, which it must leave alone, and that results keep their bits.
#include "compiler/fusion/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "compiler/autodiff/differentiate.h"
#include "compiler/fusion/unfuse.h"
#include "core/workers.h"
#include "device/host/host_executable.h"
#include "tests/compiler/example_graphs.h"

namespace l2l::compiler {
namespace {

using Kinds = std::vector<std::string>;

Kinds kinds_of(const Graph& graph) {
  Kinds kinds;
  for (const Op& op : graph.ops) kinds.emplace_back(name_of(op.kind));
  return kinds;
}

const Op& op_of(const Graph& graph, OpKind kind) {
  for (const Op& op : graph.ops) {
    if (op.kind == kind) return op;
  }
  throw std::logic_error("no " + std::string(name_of(kind)));
}

TEST(Fuse, ForwardOfABlock) {
  const Graph fused = fuse(example_block({}));
  EXPECT_EQ(kinds_of(fused), (Kinds{"layer_norm", "matmul", "attention", "matmul", "add_layer_norm", "matmul", "gelu",
                                    "matmul", "dropout_add"}));
  EXPECT_EQ(op_of(fused, OpKind::add_layer_norm).outputs.size(), 4u);  // the sum goes on as residual
  EXPECT_EQ(op_of(fused, OpKind::add_layer_norm).attributes.probability, 0.25f);
}

TEST(Fuse, BackwardOfABlock) {
  const Graph fused = fuse(differentiate(example_block({})));
  EXPECT_EQ(kinds_of(fused), (Kinds{"layer_norm",
                                    "matmul",
                                    "attention",
                                    "matmul",
                                    "add_layer_norm",
                                    "matmul",
                                    "gelu",
                                    "dropout_bias",
                                    "matmul",
                                    "matmul",
                                    "gelu_backward_bias",
                                    "matmul",
                                    "matmul",
                                    "layer_norm_backward_add",
                                    "dropout_bias",
                                    "matmul",
                                    "matmul",
                                    "attention_backward",
                                    "matmul",
                                    "bias_gradient",
                                    "matmul",
                                    "layer_norm_backward_add"}));
  EXPECT_EQ(fused.value(fused.ops.back().outputs[0]).region, Region::input_gradient);
}

TEST(Fuse, ABlockWithRmsNorm) {
  const Graph forward = example_llama_block({.hidden = 8});
  EXPECT_EQ(kinds_of(fuse(forward)), (Kinds{"rms_norm", "matmul", "rotary", "attention", "matmul", "add_rms_norm",
                                            "matmul", "swiglu", "matmul", "add"}));
  const Graph backward = fuse(differentiate(forward));
  EXPECT_EQ(op_of(backward, OpKind::add_rms_norm).outputs.size(), 3u);
  EXPECT_EQ(backward.ops.back().kind, OpKind::rms_norm_backward_add);
  const auto is_add = [](const Op& op) { return op.kind == OpKind::add; };
  EXPECT_EQ(std::count_if(backward.ops.begin(), backward.ops.end(), is_add), 0);
}

TEST(Fuse, ANormThatAddsOneToItsWeightStillDoes) {
  for (const bool unit_offset : {false, true}) {
    GraphBuilder builder("norm");
    const ValueId x = builder.bound(Region::input, "x", DType::f32, {6, 8});
    const ValueId gain = builder.bound(Region::weights, "gain", DType::f32, {8});
    builder.place(builder.rms_norm(builder.add(x, x), gain, 1e-5f, unit_offset), Region::output);
    EXPECT_EQ(op_of(fuse(builder.finish()), OpKind::add_rms_norm).attributes.unit_offset, unit_offset);
  }
}

TEST(Fuse, WithoutDropoutTheSumIsPlain) {
  const Graph fused = fuse(example_block({.dropout = 0}));
  EXPECT_EQ(kinds_of(fused), (Kinds{"layer_norm", "matmul", "attention", "matmul", "add_layer_norm", "matmul", "gelu",
                                    "matmul", "add"}));
  EXPECT_EQ(op_of(fused, OpKind::add_layer_norm).attributes.probability, 0);
}

TEST(Fuse, ValuesThatOnlyJoinedOpsAreGone) {
  const Graph plain = example_block({}), fused = fuse(plain);
  // Two dropped values.
  EXPECT_EQ(fused.values.size() + 2, plain.values.size());
}

// A builder with an input of [6, 8] and weights.
struct Parts {
  GraphBuilder graph{"layer"};
  Wire wire{graph, DType::f32};
  ValueId x = graph.bound(Region::input, "x", DType::f32, {6, 8});

  ValueId linear(ValueId from) {
    const ValueId w = wire("w", {8, 8});
    return graph.linear(from, w, wire("b", {8}));
  }
  ValueId norm(ValueId from) {
    const ValueId gain = wire("gain", {8});
    return graph.layer_norm(from, gain, wire("bias", {8}), 1e-5f);
  }
  Kinds fused() { return kinds_of(fuse(graph.finish())); }
};

TEST(Fuse, NotWhenOthersReadWhatLiesBetween) {
  Parts p;
  const ValueId dropped = p.graph.dropout(p.x, 0.5f);
  p.graph.add(p.graph.add(dropped, p.x), dropped);
  EXPECT_EQ(p.fused(), (Kinds{"dropout", "add", "add"}));
}

TEST(Fuse, NotWhenWhatLiesBetweenIsBound) {
  Parts p;
  const ValueId dropped = p.graph.dropout(p.x, 0.5f);
  p.graph.place(dropped, Region::output);
  p.graph.add(dropped, p.x);
  EXPECT_EQ(p.fused(), (Kinds{"dropout", "add"}));

  Parts q;
  const ValueId pre = q.linear(q.x);
  q.graph.place(pre, Region::output);
  q.graph.gelu(pre);
  EXPECT_EQ(q.fused(), (Kinds{"matmul", "gelu"}));
}

TEST(Fuse, NotExactGeluNorAProductWithoutBias) {
  Parts p;
  p.graph.gelu(p.linear(p.x), true);
  p.graph.gelu(p.graph.linear_transposed(p.x, p.wire("w", {8, 8})));
  EXPECT_EQ(p.fused(), (Kinds{"matmul", "gelu", "matmul", "gelu"}));
}

TEST(Fuse, ASumInABoundRegionIsStillWritten) {
  Parts p;
  const ValueId sum = p.graph.add(p.x, p.graph.dropout(p.linear(p.x), 0.5f));
  p.graph.place(sum, Region::output);
  p.norm(sum);
  const Graph fused = fuse(p.graph.finish());
  EXPECT_EQ(kinds_of(fused), (Kinds{"matmul", "add_layer_norm"}));
  EXPECT_EQ(fused.value(fused.ops.back().outputs.at(3)).region, Region::output);
}

TEST(Fuse, ASumThatOnlyItsNormReadsIsNotStored) {
  Parts p;
  p.graph.place(p.norm(p.graph.add(p.x, p.linear(p.x))), Region::output);  // BERT
  const Graph fused = fuse(p.graph.finish());
  EXPECT_EQ(kinds_of(fused), (Kinds{"matmul", "add_layer_norm"}));
  EXPECT_EQ(fused.ops.back().outputs.size(), 3u);
}

TEST(Fuse, NotAcrossWritesToTheSameAccumulator) {
  Graph graph{"gradients", {}, {}};
  const auto value = [&](std::string name, Region region, Shape shape) {
    graph.values.push_back({std::move(name), DType::f32, shape, region});
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  const ValueId dy = value("dy", Region::output_gradient, {6, 8}), dx = value("dx", Region::scratch, {6, 8});
  const ValueId bias = value("d bias", Region::gradients, {8});
  const Attributes dropout{.probability = 0.5f, .rng_op = 1};
  graph.ops = {{OpKind::dropout, {dy}, {dx}, dropout},
               {OpKind::bias_gradient, {dy}, {bias}, {}},
               {OpKind::bias_gradient, {dx}, {bias}, {}}};
  EXPECT_EQ(kinds_of(fuse(graph)), (Kinds{"dropout", "bias_gradient", "bias_gradient"}));
  std::swap(graph.ops[1], graph.ops[2]);  // the order of the sums is that of the ops again
  EXPECT_EQ(kinds_of(fuse(graph)), (Kinds{"dropout_bias", "bias_gradient"}));
}

TEST(Fuse, UnfusedGivesTheOpsBack) {
  const Graph plain = differentiate(example_block({})), fused = fuse(plain);
  std::multiset<std::string> before, after;
  for (const Op& op : plain.ops) before.emplace(name_of(op.kind));
  for (const Op& op : fused.ops) {
    if (!is_fused(op.kind)) {
      after.emplace(name_of(op.kind));
      continue;
    }
    for (const Op& part : unfused(fused, op).ops) after.emplace(name_of(part.kind));
  }
  EXPECT_EQ(before, after);
}

// Memory of all regions that `graph` uses, from one seed; reads and writes in the graph's own layout.
class OneRun {
 public:
  explicit OneRun(const Graph& graph) {
    Workers workers("fuse", 2);
    const auto executable = device::compile_for_host(graph, workers.threads());
    device::Bindings bindings;
    for (std::size_t r = 0; r < bindings.regions.size(); ++r) {
      const auto region = static_cast<Region>(r);
      const Bytes bytes = region == Region::scratch ? executable->program().scratch_bytes : graph.region_bytes(region);
      std::vector<std::byte>& memory = memory_[region];
      memory.resize(bytes + 64);
      auto* const begin = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
      bindings[region] = {begin, bytes};
    }
    for (const Value& value : graph.values) {
      if (value.region != Region::scratch) fill(bindings[value.region].data + value.offset, value);
    }
    device::LaunchParameters parameters;
    parameters.seed = 5;
    executable->run(bindings, parameters, workers);
    for (const Region region : {Region::output, Region::input_gradient, Region::gradients}) {
      results_.insert(results_.end(), bindings[region].data, bindings[region].data + bindings[region].size);
    }
  }

  const std::vector<std::byte>& results() const { return results_; }

 private:
  static void fill(std::byte* memory, const Value& value) {
    std::mt19937 random(static_cast<unsigned int>(value.offset) + 7 * static_cast<unsigned int>(value.region));
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < value.shape.elements(); ++i) {
      const float number = normal(random);
      if (value.dtype == DType::f32) reinterpret_cast<float*>(memory)[i] = number;
      if (value.dtype == DType::bf16) reinterpret_cast<bf16*>(memory)[i] = to_bf16(number);
      if (value.dtype == DType::f16) reinterpret_cast<f16*>(memory)[i] = to_f16(number);
    }
  }

  std::map<Region, std::vector<std::byte>> memory_;
  std::vector<std::byte> results_;
};

TEST(Fuse, KeepsEveryBitOfABlock) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [dropout, core] : {std::pair{0.0f, false}, {0.25f, false}, {0.25f, true}}) {
      const BlockShape shape{.hidden = 24, .dropout = dropout, .dtype = dtype, .core_attention = core};
      const Graph forward = example_block(shape), llama = example_llama_block(shape);
      for (const Graph& graph : {forward, differentiate(forward), llama, differentiate(llama)}) {
        const OneRun plain(graph), fused(fuse(graph));
        EXPECT_FALSE(plain.results().empty());
        EXPECT_TRUE(plain.results() == fused.results()) << graph.name << ", " << name_of(dtype) << ", " << dropout;
      }
    }
  }
}

// Negative control: the comparison above notices a fused op that computes something else.
TEST(Fuse, AWrongKeyOfDropoutIsNoticed) {
  const Graph forward = example_block({.hidden = 24});
  Graph wrong = fuse(forward);
  for (Op& op : wrong.ops) {
    if (op.kind == OpKind::dropout_add) ++op.attributes.rng_op;
  }
  EXPECT_FALSE(OneRun(forward).results() == OneRun(wrong).results());
}

}  // namespace
}  // namespace l2l::compiler
