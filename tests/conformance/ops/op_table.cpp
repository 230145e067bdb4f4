#include "tests/conformance/ops/op_table.h"

#include "compiler/ir/op_table.h"
#include "tests/conformance/ops/case_builder.h"

namespace l2l::test {
namespace {

using compiler::Attributes;
using compiler::OpKind;
using compiler::Value;
using compiler::ValueId;

std::string percent(float probability) {
  return probability > 0 ? "_p" + std::to_string(static_cast<int>(probability * 100 + 0.5f)) : "";
}

CaseBuilder attention_builder(OpKind kind, DType dtype, const AttentionCase& shape) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().heads = static_cast<int>(shape.heads);
  builder.attributes().sequence = static_cast<int>(shape.sequence);
  builder.attributes().probability = shape.probability;
  builder.attributes().kv_heads = static_cast<int>(shape.kv_heads);
  builder.attributes().causal = shape.causal;
  builder.named(join({shape.sequences, shape.sequence, shape.heads, shape.head_dim}) + percent(shape.probability));
  if (shape.kv_heads > 0) builder.named("kv" + std::to_string(shape.kv_heads));
  if (!shape.causal) builder.named("bidirectional");
  return builder;
}

CaseBuilder chunk_builder(OpKind kind, DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().vocabulary = kFirstToken + tokens + kTokensBehind;
  builder.first_token(kFirstToken).named(join({rows, hidden, tokens}));
  return builder;
}

}  // namespace

OpCase embedding_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden,
                      std::int64_t vocabulary) {
  CaseBuilder builder(OpKind::embedding, dtype);
  builder.attributes().sequence = static_cast<int>(sequence);
  builder.named(join({rows, sequence, hidden, vocabulary})).input(DType::i32, {rows});
  return builder.input({vocabulary, hidden}).input({sequence, hidden}).output({rows, hidden}).finish();
}

OpCase embedding_backward_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden,
                               std::int64_t vocabulary) {
  CaseBuilder builder(OpKind::embedding_backward, dtype);
  builder.attributes().sequence = static_cast<int>(sequence);
  builder.named(join({rows, sequence, hidden, vocabulary})).input(DType::i32, {rows}).input({rows, hidden});
  return builder.output(DType::f32, {vocabulary, hidden}).output(DType::f32, {sequence, hidden}).finish();
}

OpCase layer_norm_case(DType dtype, std::int64_t rows, std::int64_t hidden) {
  CaseBuilder builder(OpKind::layer_norm, dtype);
  builder.attributes().epsilon = 1e-5f;
  builder.named(join({rows, hidden})).input({rows, hidden}).input({hidden}).input({hidden});
  return builder.output({rows, hidden}).output(DType::f32, {rows}).output(DType::f32, {rows}).finish();
}

OpCase layer_norm_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden) {
  CaseBuilder builder(OpKind::layer_norm_backward, dtype);
  builder.attributes().epsilon = 1e-5f;
  builder.named(join({rows, hidden})).input({rows, hidden}).input({rows, hidden}).input({hidden});
  builder.input(DType::f32, {rows}).input(DType::f32, {rows}).output({rows, hidden});
  return builder.output(DType::f32, {hidden}).output(DType::f32, {hidden}).finish();
}

OpCase matmul_case(DType input, DType output, const MatmulCase& shape) {
  CaseBuilder builder(OpKind::matmul, input);
  builder.attributes().transpose_a = shape.transpose_a;
  builder.attributes().transpose_b = shape.transpose_b;
  builder.attributes().accumulate = shape.accumulate;
  builder.named(std::string(name_of(output)) + "_" + join({shape.m, shape.n, shape.k}));
  if (shape.transpose_a) builder.named("ta");
  if (shape.transpose_b) builder.named("tb");
  if (shape.bias) builder.named("bias");
  if (shape.accumulate) builder.named("accumulate");
  builder.input(shape.transpose_a ? Shape{shape.k, shape.m} : Shape{shape.m, shape.k});
  builder.input(shape.transpose_b ? Shape{shape.n, shape.k} : Shape{shape.k, shape.n});
  if (shape.bias) builder.input({shape.n});
  return builder.output(output, {shape.m, shape.n}).finish();
}

OpCase bias_gradient_case(DType dtype, std::int64_t rows, std::int64_t columns) {
  CaseBuilder builder(OpKind::bias_gradient, dtype);
  return builder.named(join({rows, columns})).input({rows, columns}).output(DType::f32, {columns}).finish();
}

OpCase accumulate_case(std::int64_t rows, std::int64_t columns) {
  CaseBuilder builder(OpKind::accumulate, DType::f32);
  return builder.named(join({rows, columns})).input({rows, columns}).output({rows, columns}).finish();
}

OpCase tree_sum_case(DType dtype, std::int64_t rows, std::int64_t columns) {
  CaseBuilder builder(OpKind::tree_sum, dtype);
  return builder.named(join({rows, columns})).input({rows, columns}).output(DType::f32, {1, columns}).finish();
}

OpCase pointwise_case(OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, bool exact) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().exact = exact;
  if (exact) builder.named("exact");
  builder.named(join({rows, columns})).input(kind == OpKind::convert ? DType::f32 : dtype, {rows, columns});
  if (compiler::rule_of(kind).inputs.size() == 2) builder.input({rows, columns});
  return builder.output({rows, columns}).finish();
}

OpCase columns_case(OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t first,
                    std::int64_t count) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().first = first;
  builder.attributes().factor = 0.5f;
  builder.named(join({rows, columns, first, count})).input({rows, columns});
  if (kind == OpKind::add_columns) return builder.input({rows, count}).output({rows, columns}).finish();
  builder.attributes().columns = count;
  return builder.output({rows, count}).finish();
}

OpCase frozen(OpCase test_case, std::size_t parameters) {
  std::vector<ValueId>& outputs = test_case.graph.ops.front().outputs;
  outputs.resize(outputs.size() - parameters);
  test_case.graph.values.resize(test_case.graph.values.size() - parameters);
  test_case.graph.name = test_case.name += "_frozen" + std::to_string(parameters);
  return test_case;
}

OpCase convert_squares_case(DType dtype, std::int64_t rows, std::int64_t columns) {
  CaseBuilder builder(OpKind::convert, dtype);
  builder.named("squares").named(join({rows, columns})).input(DType::f32, {rows, columns});
  return builder.output({rows, columns}).output(DType::f64, {1}).finish();
}

OpCase stream_case(OpKind kind, DType dtype, DType stream, std::int64_t rows, std::int64_t columns, bool inverse) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().inverse = inverse;
  builder.named(std::string(name_of(stream))).named(join({rows, columns}));
  if (inverse) builder.named("inverse");
  const Shape shape{rows, columns};
  if (kind == OpKind::split_streams) return builder.input(shape).output(stream, shape).output(stream, shape).finish();
  builder.input(stream, shape);
  if (kind == OpKind::merge_streams) builder.input(stream, shape);
  if (kind == OpKind::reversible_add) return builder.input(shape).output(stream, shape).finish();
  return builder.output(shape).finish();
}

OpCase dropout_case(DType dtype, std::int64_t rows, std::int64_t columns, float probability) {
  CaseBuilder builder(OpKind::dropout, dtype);
  builder.attributes().probability = probability;
  builder.named(join({rows, columns}) + percent(probability));
  return builder.input({rows, columns}).output({rows, columns}).finish();
}

OpCase attention_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::attention, dtype, shape);
  builder.input({shape.rows(), shape.qkv()}).output({shape.rows(), shape.hidden()});
  return builder.output(DType::f32, {shape.rows(), shape.heads}).finish();
}

OpCase attention_backward_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::attention_backward, dtype, shape);
  builder.input({shape.rows(), shape.hidden()}).input({shape.rows(), shape.qkv()});
  builder.input({shape.rows(), shape.hidden()}).input(DType::f32, {shape.rows(), shape.heads});
  return builder.output({shape.rows(), shape.qkv()}).finish();
}

OpCase attention_probabilities_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::attention_probabilities, dtype, shape);
  return builder.input({shape.rows(), shape.qkv()}).output(shape.probabilities()).finish();
}

OpCase attention_probabilities_backward_case(DType dtype, const AttentionCase& shape, bool other) {
  CaseBuilder builder = attention_builder(OpKind::attention_probabilities_backward, dtype, shape);
  builder.input(shape.probabilities()).input(shape.probabilities()).input({shape.rows(), shape.qkv()});
  if (other) builder.named("other").input({shape.rows(), shape.qkv()});
  return builder.output({shape.rows(), shape.qkv()}).finish();
}

OpCase attention_mix_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::attention_mix, dtype, shape);
  builder.input(shape.probabilities()).input({shape.rows(), shape.qkv()});
  return builder.output({shape.rows(), shape.hidden()}).finish();
}

OpCase attention_mix_backward_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::attention_mix_backward, dtype, shape);
  builder.input({shape.rows(), shape.hidden()}).input(shape.probabilities()).input({shape.rows(), shape.qkv()});
  return builder.output(shape.probabilities()).output({shape.rows(), shape.qkv()}).finish();
}

OpCase rotary_case(DType dtype, const AttentionCase& shape, float base, bool inverse) {
  CaseBuilder builder = attention_builder(OpKind::rotary, dtype, shape);
  builder.attributes().rotary_base = base;
  builder.attributes().inverse = inverse;
  builder.named("base" + std::to_string(static_cast<int>(base)));
  if (inverse) builder.named("inverse");
  return builder.input({shape.rows(), shape.qkv()}).output({shape.rows(), shape.qkv()}).finish();
}

OpCase cached_attention_case(DType dtype, const AttentionCase& shape, std::int64_t capacity) {
  CaseBuilder builder = attention_builder(OpKind::cached_attention, dtype, shape);
  builder.attributes().capacity = static_cast<int>(capacity);
  builder.named("capacity" + std::to_string(capacity));
  builder.input({shape.rows(), shape.qkv()}).input(DType::i32, {2, shape.rows()});
  builder.output({shape.rows(), shape.hidden()});
  return builder.output({shape.sequences * capacity, shape.qkv() - shape.hidden()}).finish();
}

OpCase head_norm_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::head_norm, dtype, shape);
  builder.attributes().epsilon = 1e-5f;
  const std::int64_t normed = shape.heads + (shape.kv_heads == 0 ? shape.heads : shape.kv_heads);
  builder.input({shape.rows(), shape.qkv()}).input({shape.head_dim}).input({shape.head_dim});
  return builder.output({shape.rows(), shape.qkv()}).output(DType::f32, {shape.rows(), normed}).finish();
}

OpCase head_norm_backward_case(DType dtype, const AttentionCase& shape) {
  CaseBuilder builder = attention_builder(OpKind::head_norm_backward, dtype, shape);
  builder.attributes().epsilon = 1e-5f;
  const std::int64_t normed = shape.heads + (shape.kv_heads == 0 ? shape.heads : shape.kv_heads);
  builder.input({shape.rows(), shape.qkv()}).input({shape.rows(), shape.qkv()});
  builder.input({shape.head_dim}).input({shape.head_dim}).input(DType::f32, {shape.rows(), normed});
  builder.output({shape.rows(), shape.qkv()}).output(DType::f32, {shape.head_dim});
  return builder.output(DType::f32, {shape.head_dim}).finish();
}

OpCase packed(OpCase original) {
  compiler::Op& op = original.graph.ops.front();
  const std::int64_t rows = original.graph.value(op.inputs[0]).shape[0];
  const bool attention = op.kind == OpKind::attention || op.kind == OpKind::attention_backward ||
                         op.kind == OpKind::attention_probabilities;
  Value value;
  value.name = "packed";
  value.dtype = DType::i32;
  value.shape = attention ? Shape{2, rows} : Shape{rows};
  op.inputs.push_back(static_cast<ValueId>(original.graph.values.size()));
  original.graph.values.push_back(value);
  return varied(std::move(original), "packed", [](Attributes&) {});
}

OpCase varied(OpCase original, const std::string& name, const std::function<void(Attributes&)>& vary) {
  vary(original.graph.ops.front().attributes);
  original.name += "_" + name;
  original.graph.name = original.name;
  return original;
}

OpCase rms_norm_case(DType dtype, std::int64_t rows, std::int64_t hidden) {
  CaseBuilder builder(OpKind::rms_norm, dtype);
  builder.attributes().epsilon = 1e-5f;
  builder.named(join({rows, hidden})).input({rows, hidden}).input({hidden});
  return builder.output({rows, hidden}).output(DType::f32, {rows}).finish();
}

OpCase rms_norm_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden) {
  CaseBuilder builder(OpKind::rms_norm_backward, dtype);
  builder.attributes().epsilon = 1e-5f;
  builder.named(join({rows, hidden})).input({rows, hidden}).input({rows, hidden}).input({hidden});
  return builder.input(DType::f32, {rows}).output({rows, hidden}).output(DType::f32, {hidden}).finish();
}

OpCase swiglu_case(DType dtype, std::int64_t rows, std::int64_t columns) {
  CaseBuilder builder(OpKind::swiglu, dtype);
  return builder.named(join({rows, columns})).input({rows, 2 * columns}).output({rows, columns}).finish();
}

OpCase swiglu_backward_case(DType dtype, std::int64_t rows, std::int64_t columns) {
  CaseBuilder builder(OpKind::swiglu_backward, dtype);
  builder.named(join({rows, columns})).input({rows, columns}).input({rows, 2 * columns});
  return builder.output({rows, 2 * columns}).finish();
}

OpCase linear_cross_entropy_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary,
                                 bool bias) {
  CaseBuilder builder(OpKind::linear_cross_entropy, dtype);
  builder.named(join({rows, hidden, vocabulary})).input({rows, hidden}).input({vocabulary, hidden});
  builder.input(DType::i32, {rows});
  if (bias) builder.named("bias").input({vocabulary});
  return builder.output(DType::f64, {1}).finish();
}

OpCase linear_cross_entropy_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary,
                                          bool bias) {
  CaseBuilder builder(OpKind::linear_cross_entropy_backward, dtype);
  builder.named(join({rows, hidden, vocabulary})).input({rows, hidden}).input({vocabulary, hidden});
  builder.input(DType::i32, {rows});
  if (bias) builder.named("bias").input({vocabulary});
  builder.output(DType::f64, {1}).output({rows, hidden}).output(DType::f32, {vocabulary, hidden});
  if (bias) builder.output(DType::f32, {vocabulary});
  return builder.finish();
}

OpCase embedding_rows_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens) {
  CaseBuilder builder = chunk_builder(OpKind::embedding_rows, dtype, rows, hidden, tokens);
  return builder.input(DType::i32, {rows}).input({tokens, hidden}).output({rows, hidden}).finish();
}

OpCase embedding_rows_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens) {
  CaseBuilder builder = chunk_builder(OpKind::embedding_rows_backward, dtype, rows, hidden, tokens);
  return builder.input(DType::i32, {rows}).input({rows, hidden}).output(DType::f32, {tokens, hidden}).finish();
}

OpCase softmax_statistics_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens, bool bias) {
  CaseBuilder builder = chunk_builder(OpKind::softmax_statistics, dtype, rows, hidden, tokens);
  builder.input({rows, hidden}).input({tokens, hidden}).input(DType::i32, {rows});
  if (bias) builder.named("bias").input({tokens});
  return builder.output(DType::f64, {rows, 3}).finish();
}

OpCase chunk_cross_entropy_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens,
                                         bool bias) {
  CaseBuilder builder = chunk_builder(OpKind::chunk_cross_entropy_backward, dtype, rows, hidden, tokens);
  builder.input({rows, hidden}).input({tokens, hidden}).input(DType::i32, {rows}).input(DType::f64, {rows, 3});
  if (bias) builder.named("bias").input({tokens});
  builder.output(DType::f32, {rows, hidden}).output(DType::f32, {tokens, hidden});
  if (bias) builder.output(DType::f32, {tokens});
  return builder.finish();
}

OpCase cross_entropy_case(std::int64_t rows) {
  CaseBuilder builder(OpKind::cross_entropy, DType::f32);
  builder.named(join({rows})).input(DType::f64, {rows, 3}).input(DType::i32, {rows});
  return builder.output(DType::f64, {1}).finish();
}

OpCase row_loss_case(OpKind kind, DType dtype, std::int64_t rows) {
  const bool squared = kind == OpKind::squared_error || kind == OpKind::squared_error_backward;
  const bool backward = kind == OpKind::squared_error_backward || kind == OpKind::choice_cross_entropy_backward;
  CaseBuilder builder(kind, dtype);
  builder.named(join({rows})).input({rows, 1}).input(squared ? DType::f32 : DType::i32, {rows});
  builder.output(DType::f64, {1});
  if (backward) builder.output({rows, 1});
  return builder.finish();
}

OpCase positions_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden) {
  CaseBuilder builder(OpKind::add_positions, dtype);
  builder.attributes().sequence = static_cast<int>(sequence);
  builder.named(join({rows, sequence, hidden})).input({rows, hidden}).input({sequence, hidden});
  return builder.output({rows, hidden}).finish();
}

OpCase positions_backward_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden) {
  CaseBuilder builder(OpKind::positions_backward, dtype);
  builder.attributes().sequence = static_cast<int>(sequence);
  builder.named(join({rows, sequence, hidden})).input({rows, hidden});
  return builder.output(DType::f32, {sequence, hidden}).finish();
}

}  // namespace l2l::test
