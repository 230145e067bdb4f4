#include <optional>
#include <span>
#include <utility>

#include "compiler/autodiff/backward.h"

namespace l2l::compiler {
namespace {

// `inputs`, and behind them input `position` of `op`, which it may lack.
std::vector<ValueId> with_optional(const Op& op, std::size_t position, std::vector<ValueId> inputs) {
  if (op.inputs.size() > position) inputs.push_back(op.inputs[position]);
  return inputs;
}

// Appends a `kind` op that computes the gradient of the first input of `op`.
void append_input_gradient(Backward& backward, const Op& op, OpKind kind, std::vector<ValueId> inputs,
                           Attributes attributes) {
  const ValueId dx = backward.like(op.inputs[0]);
  backward.append(kind, std::move(inputs), {dx}, attributes);
  backward.contribute(op.inputs[0], dx);
}

// The gradient of one factor of a product: accumulators of what is trained when it is a weight, a gradient to pass on
// otherwise. Row i of the factor's gradient comes from column i of the product's first matrix, read transposed.
void append_factor(Backward& backward, ValueId factor, std::vector<ValueId> product, Attributes attributes) {
  if (backward.is_weight(factor)) {
    attributes.accumulate = true;
    for (const Backward::TrainedRows& piece : backward.trained_rows(factor)) {
      std::vector<ValueId> operands = product;
      if (attributes.transpose_a) operands[0] = backward.columns(product[0], piece.first, piece.rows);
      backward.append(OpKind::matmul, std::move(operands), {piece.accumulator}, attributes);
    }
    return;
  }
  const ValueId gradient = backward.like(factor);
  backward.append(OpKind::matmul, std::move(product), {gradient}, attributes);
  backward.contribute(factor, gradient);
}

void embedding_vjp(Backward& backward, const Op& op) {
  const ValueId dy = backward.gradient(op.outputs[0]);
  const std::optional<ValueId> table = backward.accumulator(op.inputs[1]), places = backward.accumulator(op.inputs[2]);
  if (table && places) {
    backward.append(OpKind::embedding_backward, with_optional(op, 3, {op.inputs[0], dy}), {*table, *places},
                    op.attributes);
  } else if (table) {
    backward.append(OpKind::embedding_rows_backward, {op.inputs[0], dy}, {*table}, {});
  } else if (places) {
    backward.append(OpKind::positions_backward, with_optional(op, 3, {dy}), {*places}, op.attributes);
  }
}

// Of a norm of x with `gains` parameters that its gradient depends on: those of x and of `parameters`. What the norm
// returns besides its result is read again.
void append_norm_gradient(Backward& backward, const Op& op, OpKind kind, std::ptrdiff_t gains,
                          std::span<const ValueId> parameters) {
  const ValueId x = op.inputs[0], dx = backward.like(x);
  std::vector<ValueId> inputs{backward.gradient(op.outputs[0])}, outputs{dx};
  inputs.insert(inputs.end(), op.inputs.begin(), op.inputs.begin() + 1 + gains);
  inputs.insert(inputs.end(), op.outputs.begin() + 1, op.outputs.end());
  outputs = backward.with_accumulators(op, std::move(outputs), parameters);
  backward.append(kind, std::move(inputs), std::move(outputs), op.attributes);
  backward.contribute(x, dx);
}

// The gradient of the bias alone is the sum of dy over rows.
template <OpKind kBackward>
void layer_norm_vjp(Backward& backward, const Op& op) {
  const ValueId gain = op.inputs[1], bias = op.inputs[2];
  std::vector<ValueId> trained{gain, bias};
  if (!backward.accumulator(gain)) {
    if (const std::optional<ValueId> dbias = backward.accumulator(bias)) {
      backward.append(OpKind::bias_gradient, {backward.gradient(op.outputs[0])}, {*dbias}, {});
    }
    trained.clear();
  }
  append_norm_gradient(backward, op, kBackward, 1, trained);
}

void batch_norm_vjp(Backward& backward, const Op& op) {
  layer_norm_vjp<OpKind::group_norm_backward>(backward, op);
  std::vector<ValueId> measured = backward.with_accumulators(op, {}, std::span(op.inputs).subspan(3));
  if (measured.empty()) {
    if (!backward.accumulator(op.inputs[1]) && !backward.accumulator(op.inputs[2])) return;
    backward.refuse(op, "trains its gain or bias, but not its statistics: name all in optimizer.train, or none");
  }
  backward.append(OpKind::batch_statistics, {op.outputs[1], op.outputs[2]}, std::move(measured), op.attributes);
}

void rms_norm_vjp(Backward& backward, const Op& op) {
  append_norm_gradient(backward, op, OpKind::rms_norm_backward, 1, std::span(op.inputs).subspan(1));
}

void head_norm_vjp(Backward& backward, const Op& op) {
  append_norm_gradient(backward, op, OpKind::head_norm_backward, 2, std::span(op.inputs).subspan(1));
}

// y = op(a) op(b) + bias: d op(a) = dy op(b)^T, d op(b) = op(a)^T dy, with the factors exchanged where a or b is
// itself read transposed. The gradient of b, a layer's weight, comes first.
void matmul_vjp(Backward& backward, const Op& op) {
  const ValueId a = op.inputs[0], b = op.inputs[1], dy = backward.gradient(op.outputs[0]);
  const bool ta = op.attributes.transpose_a, tb = op.attributes.transpose_b;
  if (op.attributes.accumulate) backward.refuse(op, "an accumulating product has no derivative");
  if (tb) {
    append_factor(backward, b, {dy, a}, {.transpose_a = true, .transpose_b = ta});
  } else {
    append_factor(backward, b, {a, dy}, {.transpose_a = !ta});
  }
  if (op.inputs.size() > 2) {
    for (const Backward::TrainedRows& piece : backward.trained_rows(op.inputs[2])) {
      backward.append(OpKind::bias_gradient, {backward.columns(dy, piece.first, piece.rows)}, {piece.accumulator}, {});
    }
  }
  if (ta) {
    append_factor(backward, a, {b, dy}, {.transpose_a = tb, .transpose_b = true});
  } else {
    append_factor(backward, a, {dy, b}, {.transpose_b = !tb});
  }
}

void gelu_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, OpKind::gelu_backward, {backward.gradient(op.outputs[0]), op.inputs[0]},
                        op.attributes);
}

// Of a function whose derivative follows from its value.
template <OpKind kBackward>
void by_value_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, kBackward, {backward.gradient(op.outputs[0]), op.outputs[0]}, {});
}

// Of one whose derivative is that of its argument.
template <OpKind kBackward>
void by_argument_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, kBackward, {backward.gradient(op.outputs[0]), op.inputs[0]}, {});
}

void attention_vjp(Backward& backward, const Op& op) {
  append_input_gradient(
      backward, op, OpKind::attention_backward,
      with_optional(op, 1, {backward.gradient(op.outputs[0]), op.inputs[0], op.outputs[0], op.outputs[1]}),
      op.attributes);
}

void dropout_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, OpKind::dropout, {backward.gradient(op.outputs[0])}, op.attributes);
}

void add_vjp(Backward& backward, const Op& op) {
  const ValueId dy = backward.gradient(op.outputs[0]);
  backward.contribute(op.inputs[1], dy);
  backward.contribute(op.inputs[0], dy);
}

void multiply_vjp(Backward& backward, const Op& op) {
  const ValueId dy = backward.gradient(op.outputs[0]);
  for (const std::size_t factor : {1, 0}) {
    const ValueId of = op.inputs[factor], gradient = backward.like(of);
    backward.append(OpKind::multiply, {dy, op.inputs[1 - factor]}, {gradient}, {});
    backward.contribute(of, gradient);
  }
}

// A part of the columns adds to the gradient of all so far.
void columns_vjp(Backward& backward, const Op& op) {
  const ValueId x = op.inputs[0], dy = backward.gradient(op.outputs[0]);
  const std::int64_t all = backward.value(x).shape[1], first = op.attributes.first;
  const float factor = op.attributes.factor;
  if (op.attributes.columns == all) return backward.contribute(x, backward.columns(dy, 0, all, factor));
  const ValueId dx = backward.like(x);
  if (const std::optional<ValueId> known = backward.take(x)) {
    backward.append(OpKind::add_columns, {*known, dy}, {dx}, {.factor = factor, .first = first});
  } else {
    backward.append(OpKind::pad_columns, {dy}, {dx}, {.factor = factor, .first = first, .columns = all});
  }
  backward.contribute(x, dx);
}

void pad_columns_vjp(Backward& backward, const Op& op) {
  const std::int64_t count = backward.value(op.inputs[0]).shape[1];
  const ValueId dy = backward.gradient(op.outputs[0]);
  backward.contribute(op.inputs[0], backward.columns(dy, op.attributes.first, count, op.attributes.factor));
}

void reshape_vjp(Backward& backward, const Op& op) {
  const Value& x = backward.value(op.inputs[0]);
  if (x.dtype == DType::i32) return;
  const std::int64_t columns = op.attributes.columns == 0 ? 0 : x.shape[1];
  append_input_gradient(backward, op, OpKind::reshape, {backward.gradient(op.outputs[0])}, {.columns = columns});
}

void permute_vjp(Backward& backward, const Op& op) {
  Attributes inverse;
  for (std::uint8_t i = 0; i < 4; ++i) {
    inverse.dims[i] = op.attributes.dims[op.attributes.axes[i]];
    inverse.axes[op.attributes.axes[i]] = i;
  }
  append_input_gradient(backward, op, OpKind::permute, {backward.gradient(op.outputs[0])}, inverse);
}

void broadcast_vjp(Backward& backward, const Op& op) {
  const ValueId dy = backward.gradient(op.outputs[0]);
  if (!backward.is_weight(op.inputs[0])) {
    return append_input_gradient(backward, op, OpKind::sum, {dy}, op.attributes);
  }
  if (const std::optional<ValueId> dx = backward.accumulator(op.inputs[0])) {
    backward.append(OpKind::broadcast_backward, {dy}, {*dx}, op.attributes);
  }
}

// Of a linear function of x whose transpose is an op of its own.
template <OpKind kTranspose>
void transpose_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, kTranspose, {backward.gradient(op.outputs[0])}, op.attributes);
}

void lookup_vjp(Backward& backward, const Op& op) {
  if (const std::optional<ValueId> table = backward.accumulator(op.inputs[1])) {
    const ValueId dy = backward.gradient(op.outputs[0]);
    backward.append(OpKind::embedding_rows_backward, {op.inputs[0], dy}, {*table}, op.attributes);
  }
}

void gather_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, OpKind::gather_backward, {op.inputs[1], backward.gradient(op.outputs[0])},
                        op.attributes);
}

void max_pool_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, OpKind::max_pool_backward,
                        {backward.gradient(op.outputs[0]), op.inputs[0], op.outputs[0]}, op.attributes);
}

void row_cross_entropy_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, OpKind::row_cross_entropy_backward,
                        {backward.gradient(op.outputs[0]), op.inputs[0], op.inputs[1]}, op.attributes);
}

void add_columns_vjp(Backward& backward, const Op& op) {
  const ValueId dy = backward.gradient(op.outputs[0]), part = op.inputs[1];
  const std::int64_t count = backward.value(part).shape[1];
  backward.contribute(part, backward.columns(dy, op.attributes.first, count, op.attributes.factor));
  backward.contribute(op.inputs[0], dy);
}

void linear_cross_entropy_vjp(Backward& backward, const Op& op) {
  const ValueId x = op.inputs[0], dx = backward.like(x);
  std::vector<ValueId> parameters{op.inputs[1]};
  if (op.inputs.size() > 3) parameters.push_back(op.inputs[3]);
  backward.append(OpKind::linear_cross_entropy_backward, op.inputs,
                  backward.with_accumulators(op, {op.outputs[0], dx}, parameters), op.attributes);
  backward.contribute(x, dx);
}

// The loss of rows of one number.
template <OpKind backward_kind>
void row_loss_vjp(Backward& backward, const Op& op) {
  const ValueId x = op.inputs[0], dx = backward.like(x);
  backward.append(backward_kind, op.inputs, {op.outputs[0], dx}, op.attributes);
  backward.contribute(x, dx);
}

// A rotation's transpose is the rotation back.
void rotary_vjp(Backward& backward, const Op& op) {
  Attributes attributes = op.attributes;
  attributes.inverse = !attributes.inverse;
  append_input_gradient(backward, op, OpKind::rotary, with_optional(op, 1, {backward.gradient(op.outputs[0])}),
                        attributes);
}

void swiglu_vjp(Backward& backward, const Op& op) {
  append_input_gradient(backward, op, OpKind::swiglu_backward, {backward.gradient(op.outputs[0]), op.inputs[0]},
                        op.attributes);
}

void add_positions_vjp(Backward& backward, const Op& op) {
  const ValueId dy = backward.gradient(op.outputs[0]);
  if (const std::optional<ValueId> gradient = backward.accumulator(op.inputs[1])) {
    backward.append(OpKind::positions_backward, with_optional(op, 2, {dy}), {*gradient}, op.attributes);
  }
  backward.contribute(op.inputs[0], dy);
}

// The gradient of qkv so far, from attention_mix, is an input of the op, which adds to it.
void attention_probabilities_vjp(Backward& backward, const Op& op) {
  const ValueId qkv = op.inputs[0], dqkv = backward.like(qkv);
  std::vector<ValueId> inputs{backward.gradient(op.outputs[0]), op.outputs[0], qkv};
  if (const std::optional<ValueId> other = backward.take(qkv)) inputs.push_back(*other);
  backward.append(OpKind::attention_probabilities_backward, std::move(inputs), {dqkv}, op.attributes);
  backward.contribute(qkv, dqkv);
}

void attention_mix_vjp(Backward& backward, const Op& op) {
  const ValueId probabilities = op.inputs[0], qkv = op.inputs[1];
  const ValueId dprobabilities = backward.like(probabilities), dqkv = backward.like(qkv);
  backward.append(OpKind::attention_mix_backward, {backward.gradient(op.outputs[0]), probabilities, qkv},
                  {dprobabilities, dqkv}, op.attributes);
  backward.contribute(qkv, dqkv);
  backward.contribute(probabilities, dprobabilities);
}

void split_streams_vjp(Backward& backward, const Op& op) {
  for (const ValueId stream : op.outputs) {
    if (backward.has_gradient(stream)) backward.contribute(op.inputs[0], backward.gradient(stream));
  }
}

// Each stream gets its own copy of the sum's gradient, since both may leave the layer.
void merge_streams_vjp(Backward& backward, const Op& op) {
  const ValueId da = backward.like(op.outputs[0]), db = backward.like(op.outputs[0]);
  backward.append(OpKind::split_streams, {backward.gradient(op.outputs[0])}, {da, db}, {});
  backward.contribute(op.inputs[0], da);
  backward.contribute(op.inputs[1], db);
}

// The gradient passes the rounding unchanged.
void read_stream_vjp(Backward& backward, const Op& op) {
  backward.contribute(op.inputs[0], backward.gradient(op.outputs[0]));
}

// What samples bring has no gradient.
void unpack_vjp(Backward&, const Op&) {}

void reversible_add_vjp(Backward& backward, const Op& op) {
  if (op.attributes.inverse) backward.refuse(op, "an inverse has no derivative");
  add_vjp(backward, op);
}

void depthwise_vjp(Backward& backward, const Op& op) {
  const ValueId x = op.inputs[0], dx = backward.like(x);
  backward.append(OpKind::depthwise_backward, {backward.gradient(op.outputs[0]), x, op.inputs[1]},
                  backward.with_accumulators(op, {dx}, std::span(op.inputs).subspan(1)), op.attributes);
  backward.contribute(x, dx);
}

void custom_vjp(Backward& backward, const Op& op) {
  const ValueId x = op.inputs[0], dx = backward.like(x);
  const std::span<const ValueId> parameters = std::span(op.inputs).subspan(1);
  backward.append(OpKind::custom_backward, with_optional(op, 1, {backward.gradient(op.outputs[0]), x, op.outputs[0]}),
                  backward.with_accumulators(op, {dx}, parameters), op.attributes);
  backward.contribute(x, dx);
}

}  // namespace

VectorJacobianProduct* vjp_of(OpKind kind) {
  static constexpr std::pair<OpKind, VectorJacobianProduct*> kProducts[] = {
      {OpKind::embedding, embedding_vjp},
      {OpKind::layer_norm, layer_norm_vjp<OpKind::layer_norm_backward>},
      {OpKind::matmul, matmul_vjp},
      {OpKind::custom, custom_vjp},
      {OpKind::gelu, gelu_vjp},
      {OpKind::tanh, by_value_vjp<OpKind::tanh_backward>},
      {OpKind::sigmoid, by_value_vjp<OpKind::sigmoid_backward>},
      {OpKind::silu, by_argument_vjp<OpKind::silu_backward>},
      {OpKind::hard_sigmoid, by_argument_vjp<OpKind::hard_sigmoid_backward>},
      {OpKind::hard_swish, by_argument_vjp<OpKind::hard_swish_backward>},
      {OpKind::relu, by_value_vjp<OpKind::relu_backward>},
      {OpKind::attention, attention_vjp},
      {OpKind::dropout, dropout_vjp},
      {OpKind::add, add_vjp},
      {OpKind::multiply, multiply_vjp},
      {OpKind::add_columns, add_columns_vjp},
      {OpKind::columns, columns_vjp},
      {OpKind::linear_cross_entropy, linear_cross_entropy_vjp},
      {OpKind::squared_error, row_loss_vjp<OpKind::squared_error_backward>},
      {OpKind::choice_cross_entropy, row_loss_vjp<OpKind::choice_cross_entropy_backward>},
      {OpKind::rms_norm, rms_norm_vjp},
      {OpKind::head_norm, head_norm_vjp},
      {OpKind::rotary, rotary_vjp},
      {OpKind::swiglu, swiglu_vjp},
      {OpKind::add_positions, add_positions_vjp},
      {OpKind::attention_probabilities, attention_probabilities_vjp},
      {OpKind::attention_mix, attention_mix_vjp},
      {OpKind::split_streams, split_streams_vjp},
      {OpKind::merge_streams, merge_streams_vjp},
      {OpKind::read_stream, read_stream_vjp},
      {OpKind::reversible_add, reversible_add_vjp},
      {OpKind::reshape, reshape_vjp},
      {OpKind::pad_columns, pad_columns_vjp},
      {OpKind::unpack, unpack_vjp},
      {OpKind::permute, permute_vjp},
      {OpKind::broadcast, broadcast_vjp},
      {OpKind::sum, transpose_vjp<OpKind::broadcast>},
      {OpKind::softmax, by_value_vjp<OpKind::softmax_backward>},
      {OpKind::lookup, lookup_vjp},
      {OpKind::unfold, transpose_vjp<OpKind::fold>},
      {OpKind::fold, transpose_vjp<OpKind::unfold>},
      {OpKind::gather, gather_vjp},
      {OpKind::max_pool, max_pool_vjp},
      {OpKind::depthwise, depthwise_vjp},
      {OpKind::average_pool, transpose_vjp<OpKind::average_pool_backward>},
      {OpKind::upsample, transpose_vjp<OpKind::upsample_backward>},
      {OpKind::group_norm, layer_norm_vjp<OpKind::group_norm_backward>},
      {OpKind::batch_norm, batch_norm_vjp},
      {OpKind::row_cross_entropy, row_cross_entropy_vjp},
      {OpKind::all_gather_rows, transpose_vjp<OpKind::reduce_scatter_rows>},
      {OpKind::reduce_scatter_rows, transpose_vjp<OpKind::all_gather_rows>},
      {OpKind::sample_loss, row_loss_vjp<OpKind::sample_loss_backward>},
  };
  for (const auto& [of, product] : kProducts) {
    if (of == kind) return product;
  }
  return nullptr;
}

}  // namespace l2l::compiler
