// Layer graphs for the tests of the compiler.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Binds weights one after the other, as in a layer's transfer buffer.
class Wire {
 public:
  Wire(GraphBuilder& builder, DType dtype) : builder_(builder), dtype_(dtype) {}
  ValueId operator()(std::string name, Shape shape) {
    const ValueId id = builder_.bound(Region::weights, std::move(name), dtype_, shape, next_);
    next_ += static_cast<Bytes>(shape.elements()) * size_of(dtype_);
    return id;
  }

 private:
  GraphBuilder& builder_;
  DType dtype_;
  Bytes next_ = 0;
};

struct BlockShape {
  int sequences = 2, sequence = 4, hidden = 6, heads = 2;
  float dropout = 0.25f;
  DType dtype = DType::f32;
  bool core_attention = false;

  ValueId attend(GraphBuilder& graph, ValueId qkv, Attributes attention) const {
    return core_attention ? graph.core_attention(qkv, attention) : graph.attention(qkv, attention);
  }
};

// A GPT-2 block.
inline Graph example_block(const BlockShape& shape) {
  const std::int64_t rows = shape.sequences * shape.sequence, h = shape.hidden;
  GraphBuilder graph("block");
  Wire wire(graph, shape.dtype);
  const auto norm = [&](ValueId x, const std::string& name) {
    const ValueId gain = wire(name + ".gain", {h});
    return graph.layer_norm(x, gain, wire(name + ".bias", {h}), 1e-5f);
  };
  const auto linear = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    const ValueId w = wire(name + ".w", {in, out});
    return graph.linear(x, w, wire(name + ".b", {out}));
  };
  const ValueId x = graph.bound(Region::input, "x", shape.dtype, {rows, h});
  const ValueId qkv = linear(norm(x, "ln_1"), "qkv", h, 3 * h);
  const ValueId mixed =
      shape.attend(graph, qkv, {.probability = shape.dropout, .heads = shape.heads, .sequence = shape.sequence});
  const ValueId y = graph.add(x, graph.dropout(linear(mixed, "proj", h, h), shape.dropout));
  const ValueId wide = graph.gelu(linear(norm(y, "ln_2"), "fc", h, 4 * h));
  graph.place(graph.add(y, graph.dropout(linear(wide, "out", 4 * h, h), shape.dropout)), Region::output);
  return graph.finish();
}

// A reversible GPT-2 block: attention and MLP, each added to the stream that the other reads. `stream`: f32 or i32.
inline Graph example_reversible_block(const BlockShape& shape, DType stream) {
  const std::int64_t rows = shape.sequences * shape.sequence, h = shape.hidden;
  const Bytes second = static_cast<Bytes>(rows * h) * size_of(stream);
  GraphBuilder graph("reversible block");
  Wire wire(graph, shape.dtype);
  const auto norm = [&](ValueId x, const std::string& name) {
    const ValueId gain = wire(name + ".gain", {h});
    return graph.layer_norm(x, gain, wire(name + ".bias", {h}), 1e-5f);
  };
  const auto linear = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    const ValueId w = wire(name + ".w", {in, out});
    return graph.linear(x, w, wire(name + ".b", {out}));
  };
  const ValueId x1 = graph.bound(Region::input, "x1", stream, {rows, h});
  const ValueId x2 = graph.bound(Region::input, "x2", stream, {rows, h}, second);
  const ValueId qkv = linear(norm(graph.read_stream(x2, shape.dtype), "ln_1"), "qkv", h, 3 * h);
  const ValueId mixed =
      graph.attention(qkv, {.probability = shape.dropout, .heads = shape.heads, .sequence = shape.sequence});
  const ValueId y1 = graph.reversible_add(x1, graph.dropout(linear(mixed, "proj", h, h), shape.dropout));
  const ValueId wide = graph.gelu(linear(norm(graph.read_stream(y1, shape.dtype), "ln_2"), "fc", h, 4 * h));
  const ValueId y2 = graph.reversible_add(x2, graph.dropout(linear(wide, "out", 4 * h, h), shape.dropout));
  graph.place(y1, Region::output);
  graph.place(y2, Region::output, second);
  return graph.finish();
}

// A Llama block.
inline Graph example_llama_block(const BlockShape& shape) {
  const std::int64_t rows = shape.sequences * shape.sequence, h = shape.hidden;
  const Attributes attention{.heads = shape.heads, .kv_heads = 1, .sequence = shape.sequence};
  const std::int64_t columns = h + 2 * h / shape.heads;
  GraphBuilder graph("llama block");
  Wire wire(graph, shape.dtype);
  const ValueId x = graph.bound(Region::input, "x", shape.dtype, {rows, h});
  const ValueId qkv = graph.linear_transposed(graph.rms_norm(x, wire("norm_1", {h}), 1e-5f), wire("qkv", {columns, h}));
  const ValueId mixed = shape.attend(graph, graph.rotary(qkv, attention), attention);
  const ValueId y = graph.add(x, graph.linear_transposed(mixed, wire("output", {h, h})));
  const ValueId wide = graph.linear_transposed(graph.rms_norm(y, wire("norm_2", {h}), 1e-5f), wire("up", {4 * h, h}));
  graph.place(graph.add(y, graph.linear_transposed(graph.swiglu(wide), wire("down", {h, 2 * h}))), Region::output);
  return graph.finish();
}

// Final norm, tied logits, loss.
inline Graph example_head(std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary) {
  GraphBuilder graph("head");
  Wire wire(graph, DType::f32);
  const ValueId x = graph.bound(Region::input, "x", DType::f32, {rows, hidden});
  const ValueId gain = wire("gain", {hidden}), bias = wire("bias", {hidden}),
                table = wire("table", {vocabulary, hidden});
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {rows});
  graph.place(graph.linear_cross_entropy(graph.layer_norm(x, gain, bias, 1e-5f), table, targets), Region::loss);
  return graph.finish();
}

// A BERT block: norms behind the sums, attention both ways, exact GELU, matrices [out, in].
inline Graph example_bert_block(const BlockShape& shape) {
  const std::int64_t rows = shape.sequences * shape.sequence, h = shape.hidden;
  GraphBuilder graph("bert block");
  Wire wire(graph, shape.dtype);
  const auto norm = [&](ValueId x, const std::string& name) {
    const ValueId gain = wire(name + ".gain", {h});
    return graph.layer_norm(x, gain, wire(name + ".bias", {h}), 1e-5f);
  };
  const auto linear = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    const ValueId w = wire(name + ".w", {out, in});
    return graph.linear_transposed(x, w, wire(name + ".b", {out}));
  };
  const ValueId x = graph.bound(Region::input, "x", shape.dtype, {rows, h});
  const ValueId mixed =
      shape.attend(graph, linear(x, "qkv", h, 3 * h),
                   {.probability = shape.dropout, .heads = shape.heads, .causal = false, .sequence = shape.sequence});
  const ValueId y = norm(graph.add(x, graph.dropout(linear(mixed, "proj", h, h), shape.dropout)), "ln_1");
  const ValueId wide = graph.gelu(linear(y, "fc", h, 2 * h), /*exact=*/true);
  graph.place(norm(graph.add(y, graph.dropout(linear(wide, "out", 2 * h, h), shape.dropout)), "ln_2"), Region::output);
  return graph.finish();
}

// A Llama block: RMS norms, rotary positions, two queries to each key and value, SwiGLU, no biases.
inline Graph example_llama_block(DType dtype) {
  const std::int64_t rows = 8, h = 8, wide = 6;
  const Attributes attention{.heads = 4, .kv_heads = 2, .sequence = 4, .rotary_base = 50};
  GraphBuilder graph("llama block");
  Wire wire(graph, dtype);
  const ValueId x = graph.bound(Region::input, "x", dtype, {rows, h});
  const ValueId qkv = graph.linear_transposed(graph.rms_norm(x, wire("norm_1", {h}), 1e-5f), wire("qkv", {2 * h, h}));
  const ValueId mixed = graph.attention(graph.rotary(qkv, attention), attention);
  const ValueId y = graph.add(x, graph.linear_transposed(mixed, wire("proj", {h, h})));
  const ValueId up =
      graph.linear_transposed(graph.rms_norm(y, wire("norm_2", {h}), 1e-5f), wire("gate and up", {2 * wide, h}));
  graph.place(graph.add(y, graph.linear_transposed(graph.swiglu(up), wire("down", {h, wide}))), Region::output);
  return graph.finish();
}

// Token and position embedding with dropout.
inline Graph example_embedding(std::int64_t rows, int sequence, std::int64_t hidden, std::int64_t vocabulary) {
  GraphBuilder graph("embedding");
  Wire wire(graph, DType::f32);
  const ValueId tokens = graph.bound(Region::tokens, "tokens", DType::i32, {rows});
  const ValueId table = wire("table", {vocabulary, hidden}), positions = wire("positions", {sequence, hidden});
  graph.place(graph.dropout(graph.embedding(tokens, table, positions, sequence), 0.25f), Region::output);
  return graph.finish();
}

}  // namespace l2l::compiler
