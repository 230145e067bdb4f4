// What GraphBuilder infers, and what it refuses.
#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "l2l/errors.h"
#include "tests/compiler/example_graphs.h"

namespace l2l::compiler {
namespace {

// Values of the usual kinds: R = 6, H = 4, V = 9, S = 3.
struct Parts {
  explicit Parts(DType dtype = DType::f32) : dtype(dtype) {}
  ValueId input(Shape shape) { return graph.bound(Region::input, "x", dtype, shape); }
  ValueId weight(std::string name, Shape shape) { return wire(std::move(name), shape); }
  ValueId rows(Region region) { return graph.bound(region, std::string(name_of(region)), DType::i32, {6}); }

  DType dtype;
  GraphBuilder graph{"layer"};
  Wire wire{graph, dtype};
};

void expect_value(const Value& value, DType dtype, const Shape& shape) {
  EXPECT_EQ(value.dtype, dtype) << value.name;
  EXPECT_EQ(value.shape.to_string(), shape.to_string()) << value.name;
  EXPECT_EQ(value.region, Region::scratch) << value.name;
}

TEST(GraphBuilder, InfersShapesAndDtypes) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    Parts p(t);
    const ValueId x = p.input({6, 4});
    const ValueId e =
        p.graph.embedding(p.rows(Region::tokens), p.weight("table", {9, 4}), p.weight("places", {3, 4}), 3);
    const ValueId n = p.graph.layer_norm(x, p.weight("gain", {4}), p.weight("bias", {4}), 1e-5f);
    const ValueId l = p.graph.linear(n, p.weight("w", {4, 12}), p.weight("b", {12}));
    const ValueId a = p.graph.attention(l, {.probability = 0.1f, .heads = 2, .sequence = 3});
    const ValueId g = p.graph.gelu(a);
    const ValueId d = p.graph.dropout(g, 0.1f);
    const ValueId s = p.graph.add(d, e);
    const ValueId logits = p.graph.linear_transposed(s, p.weight("out", {9, 4}));
    const ValueId loss = p.graph.linear_cross_entropy(s, p.weight("out2", {9, 4}), p.rows(Region::targets));
    p.graph.place(loss, Region::loss);
    const Graph graph = p.graph.finish();

    for (const ValueId id : {e, n, a, g, d, s}) expect_value(graph.value(id), t, {6, 4});
    expect_value(graph.value(l), t, {6, 12});
    expect_value(graph.value(logits), t, {6, 9});
    ASSERT_EQ(graph.ops[1].outputs.size(), 3u);
    expect_value(graph.value(graph.ops[1].outputs[1]), DType::f32, {6});
    expect_value(graph.value(graph.ops[1].outputs[2]), DType::f32, {6});
    expect_value(graph.value(graph.ops[3].outputs[1]), DType::f32, {6, 2});
    EXPECT_EQ(graph.value(loss).dtype, DType::f64);
    EXPECT_EQ(graph.value(loss).shape, (Shape{1}));
    EXPECT_EQ(graph.value(loss).region, Region::loss);
  }
}

TEST(GraphBuilder, AttributesReachTheirOps) {
  Parts p;
  const ValueId x = p.input({6, 12});
  const ValueId y = p.graph.attention(x, {.probability = 0.5f, .heads = 2, .sequence = 3});
  p.graph.linear_transposed(p.graph.dropout(y, 0.25f), p.weight("w", {5, 4}));
  const Graph graph = p.graph.finish();
  EXPECT_EQ(graph.ops[0].attributes.heads, 2);
  EXPECT_EQ(graph.ops[0].attributes.sequence, 3);
  EXPECT_EQ(graph.ops[0].attributes.probability, 0.5f);
  EXPECT_EQ(graph.ops[1].attributes.probability, 0.25f);
  EXPECT_TRUE(graph.ops[2].attributes.transpose_b);
  EXPECT_FALSE(graph.ops[2].attributes.transpose_a);
  EXPECT_NE(graph.ops[0].attributes.rng_op, graph.ops[1].attributes.rng_op);
}

TEST(GraphBuilder, DropoutOfNothingIsNoOpAndShiftsNoKeys) {
  const auto last_key = [](float probability) {
    Parts p;
    const ValueId x = p.input({6, 4});
    const ValueId y = p.graph.dropout(x, probability);
    EXPECT_EQ(y == x, probability == 0);
    p.graph.dropout(x, 0.5f);
    return p.graph.finish().ops.back().attributes.rng_op;
  };
  EXPECT_EQ(last_key(0), last_key(0.5f));
}

// The numbers that keys of random numbers have for their ops (RngKey::op, eight bits): others give other masks.
TEST(GraphBuilder, OpsThatDrawAreNumberedFromOne) {
  for (const bool core : {false, true}) {
    std::vector<std::uint32_t> drawing;
    for (const Op& op : example_block({.core_attention = core}).ops) {
      if (op.kind == OpKind::dropout || op.kind == OpKind::attention) drawing.push_back(op.attributes.rng_op);
    }
    EXPECT_EQ(drawing, (std::vector<std::uint32_t>{1, 2, 3}));
  }
}

TEST(GraphBuilder, PlacedValuesLeaveScratch) {
  Parts p;
  const ValueId y = p.graph.gelu(p.input({6, 4}));
  p.graph.place(y, Region::output);
  const Graph graph = p.graph.finish();
  EXPECT_EQ(graph.value(y).region, Region::output);
  EXPECT_EQ(graph.region_bytes(Region::output), 6u * 4 * 4);
}

TEST(Graph, RegionBytesAreTheHighestEnd) {
  GraphBuilder builder("layer");
  builder.bound(Region::weights, "late", DType::bf16, {10}, 100);
  builder.bound(Region::weights, "early", DType::f32, {20}, 0);
  const Graph graph = builder.finish();
  EXPECT_EQ(graph.region_bytes(Region::weights), 120u);
  EXPECT_EQ(graph.region_bytes(Region::tokens), 0u);
  EXPECT_EQ(example_block({}).region_bytes(Region::scratch), 0u);
}

TEST(Graph, EveryRegionAndKindHasItsName) {
  std::set<std::string_view> names;
  for (int i = 0; i < static_cast<int>(Region::count); ++i) names.insert(name_of(static_cast<Region>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Region::count));
  names.clear();
  for (int i = 0; i < static_cast<int>(OpKind::count); ++i) names.insert(name_of(static_cast<OpKind>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(OpKind::count));
  // The table is in the order of the enumeration.
  EXPECT_EQ(name_of(OpKind::embedding), "embedding");
  EXPECT_EQ(name_of(OpKind::bias_gradient), "bias_gradient");
  EXPECT_EQ(name_of(OpKind::linear_cross_entropy_backward), "linear_cross_entropy_backward");
  EXPECT_EQ(name_of(OpKind::convert), "convert");
}

struct Refusal {
  std::string name;
  std::function<void(Parts&)> build;
  std::vector<std::string> message;  // parts of it
};

class GraphBuilderRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(GraphBuilderRefuses, NamingOpAndShapes) {
  Parts p;
  try {
    GetParam().build(p);
    FAIL() << "nothing was refused";
  } catch (const BadInput& error) {
    for (const std::string& part : GetParam().message) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks: " << part;
    }
  }
}

std::vector<Refusal> refusals() {
  return {
      {"embedding_width",
       [](Parts& p) {
         p.graph.embedding(p.rows(Region::tokens), p.weight("table", {9, 4}), p.weight("places", {3, 5}), 3);
       },
       {"layer: op 0, embedding: positions = places f32 [3, 5] must be of shape [S, H], S = 3, H = 4",
        "table f32 [9, 4]"}},
      {"embedding_tokens",
       [](Parts& p) {
         p.graph.embedding(p.input({6, 4}), p.weight("table", {9, 4}), p.weight("places", {3, 4}), 3);
       },
       {"tokens = x f32 [6, 4] must be i32"}},
      {"embedding_rows",
       [](Parts& p) {
         p.graph.embedding(p.rows(Region::tokens), p.weight("table", {9, 4}), p.weight("places", {4, 4}), 4);
       },
       {"R = 6 rows are no whole number of sequences of 4"}},
      {"embedding_sequence",
       [](Parts& p) {
         p.graph.embedding(p.rows(Region::tokens), p.weight("table", {9, 4}), p.weight("places", {3, 4}), 6);
       },
       {"a sequence of 6 is longer than the S = 3 positions"}},
      {"layer_norm_gain",
       [](Parts& p) {
         p.graph.layer_norm(p.input({6, 4}), p.weight("gain", {5}), p.weight("bias", {4}), 1e-5f);
       },
       {"layer_norm: gain = gain f32 [5] must be of shape [H], H = 4", "x f32 [6, 4]"}},
      {"layer_norm_bias_rank",
       [](Parts& p) {
         p.graph.layer_norm(p.input({6, 4}), p.weight("gain", {4}), p.weight("bias", {1, 4}), 1e-5f);
       },
       {"bias = bias f32 [1, 4] must be of shape [H], H = 4"}},
      {"layer_norm_epsilon",
       [](Parts& p) {
         p.graph.layer_norm(p.input({6, 4}), p.weight("gain", {4}), p.weight("bias", {4}), 0);
       },
       {"layer_norm: epsilon 0.0", "must be above 0"}},
      {"linear_inner",
       [](Parts& p) {
         p.graph.linear(p.input({6, 4}), p.weight("w", {5, 3}), p.weight("b", {3}));
       },
       {"matmul: K = 4 of one operand is 5 of another", "x f32 [6, 4], w f32 [5, 3]"}},
      {"linear_bias",
       [](Parts& p) {
         p.graph.linear(p.input({6, 4}), p.weight("w", {4, 3}), p.weight("b", {4}));
       },
       {"matmul: N = 4 of one operand is 3 of another", "b f32 [4]"}},
      {"linear_transposed_inner",
       [](Parts& p) {
         p.graph.linear_transposed(p.input({6, 4}), p.weight("w", {4, 3}));
       },
       {"matmul: K = 4 of one operand is 3 of another"}},
      {"linear_rank",
       [](Parts& p) {
         p.graph.linear_transposed(p.input({2, 3, 4}), p.weight("w", {4, 3}));
       },
       {"a = x f32 [2, 3, 4] must be of shape [A, B]"}},
      {"mixed_dtypes",
       [](Parts& p) {
         p.graph.linear_transposed(p.input({6, 4}), p.graph.bound(Region::weights, "w", DType::bf16, {3, 4}));
       },
       {"b = w bf16 [3, 4] must be f32"}},
      {"gelu_rank", [](Parts& p) { p.graph.gelu(p.input({4})); }, {"gelu: x = x f32 [4] must be of shape [R, H]"}},
      {"gelu_dtype",
       [](Parts& p) {
         p.graph.gelu(p.graph.bound(Region::input, "t", DType::i32, {2, 2}));
       },
       {"gelu: x = t i32 [2, 2] must be f32, bf16 or f16"}},
      {"attention_columns",
       [](Parts& p) {
         p.graph.attention(p.input({6, 13}), {.probability = 0, .heads = 1, .sequence = 3});
       },
       {"attention: Q = 13 columns of qkv do not hold 1 + 2 x 1 heads", "x f32 [6, 13]"}},
      {"attention_heads",
       [](Parts& p) {
         p.graph.attention(p.input({6, 12}), {.probability = 0, .heads = 3, .sequence = 3});
       },
       {"attention: Q = 12 columns of qkv do not hold 3 + 2 x 3 heads"}},
      {"attention_no_heads",
       [](Parts& p) {
         p.graph.attention(p.input({6, 12}), {.probability = 0, .heads = 0, .sequence = 3});
       },
       {"0 heads do not share 0 key and value heads evenly"}},
      {"attention_shared_heads",
       [](Parts& p) {
         p.graph.attention(p.input({6, 14}), {.heads = 3, .kv_heads = 2, .sequence = 3});
       },
       {"attention: 3 heads do not share 2 key and value heads evenly"}},
      {"rotary_odd",
       [](Parts& p) {
         p.graph.rotary(p.input({6, 9}), {.heads = 1, .sequence = 3});
       },
       {"rotary: heads of 3 elements are not made of pairs"}},
      {"swiglu_odd",
       [](Parts& p) {
         p.graph.swiglu(p.input({6, 9}));
       },
       {"swiglu: G = 9 columns are not gate and up"}},
      {"attention_rows",
       [](Parts& p) {
         p.graph.attention(p.input({6, 12}), {.probability = 0, .heads = 2, .sequence = 4});
       },
       {"R = 6 rows are no whole number of sequences of 4"}},
      {"attention_dropout",
       [](Parts& p) {
         p.graph.attention(p.input({6, 12}), {.probability = 1, .heads = 2, .sequence = 3});
       },
       {"attention: dropout probability 1.0", "must be in [0, 1)"}},
      {"dropout_probability",
       [](Parts& p) {
         p.graph.dropout(p.input({6, 4}), -0.5f);
       },
       {"dropout: dropout probability -0.5"}},
      {"random_ops",
       [](Parts& p) {
         const ValueId x = p.input({6, 4});
         for (int i = 0; i < 256; ++i) p.graph.dropout(x, 0.5f);
       },
       {"op 255, dropout: more than 255 random ops in one layer"}},
      {"add_shapes",
       [](Parts& p) {
         p.graph.add(p.input({6, 4}), p.weight("w", {4, 6}));
       },
       {"add: b = w f32 [4, 6] must be of shape [R, H], R = 6, H = 4", "x f32 [6, 4]"}},
      {"loss_targets",
       [](Parts& p) {
         const ValueId targets = p.graph.bound(Region::targets, "targets", DType::i32, {5});
         p.graph.linear_cross_entropy(p.input({6, 4}), p.weight("table", {9, 4}), targets);
       },
       {"linear_cross_entropy: targets = targets i32 [5] must be of shape [R], R = 6"}},
      {"loss_table",
       [](Parts& p) {
         p.graph.linear_cross_entropy(p.input({6, 4}), p.weight("table", {9, 5}), p.rows(Region::targets));
       },
       {"table = table f32 [9, 5] must be of shape [V, H], V = 9, H = 4"}},
      {"unknown_value", [](Parts& p) { p.graph.gelu(7); }, {"gelu: x is value 7, which does not exist"}},
      {"negative_value",
       [](Parts& p) {
         p.graph.add(p.input({6, 4}), -1);
       },
       {"add: b is value -1"}},
      {"bound_scratch",
       [](Parts& p) { p.graph.bound(Region::scratch, "s", DType::f32, {2}); },
       {"s f32 [2]: scratch cannot be bound"}},
      {"bound_empty",
       [](Parts& p) {
         p.graph.bound(Region::input, "s", DType::f32, {2, 0});
       },
       {"s f32 [2, 0] has no elements"}},
      {"bound_offset",
       [](Parts& p) { p.graph.bound(Region::weights, "s", DType::f32, {2}, 6); },
       {"s f32 [2]: offset 6 is not a multiple"}},
      {"bound_overflow",
       [](Parts& p) { p.graph.bound(Region::weights, "s", DType::f32, {std::int64_t{1} << 62}); },
       {"s f32 [4611686018427387904]", "does not fit in 64 bits"}},
      {"place_bound",
       [](Parts& p) {
         p.graph.place(p.input({6, 4}), Region::output);
       },
       {"x f32 [6, 4], lives in input already"}},
      {"place_twice",
       [](Parts& p) {
         const ValueId y = p.graph.gelu(p.input({6, 4}));
         p.graph.place(y, Region::output);
         p.graph.place(y, Region::output);
       },
       {"gelu.0.y f32 [6, 4], lives in output already"}},
      {"place_region",
       [](Parts& p) {
         p.graph.place(p.graph.gelu(p.input({6, 4})), Region::weights);
       },
       {"no op writes to weights; place it in output or loss"}},
      {"place_unknown", [](Parts& p) { p.graph.place(3, Region::output); }, {"value 3 does not exist"}},
  };
}

INSTANTIATE_TEST_SUITE_P(All, GraphBuilderRefuses, testing::ValuesIn(refusals()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace l2l::compiler
