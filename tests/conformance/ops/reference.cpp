#include "tests/conformance/ops/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "core/philox.h"
#include "l2l/errors.h"

namespace l2l::test {

using compiler::OpKind;

namespace {

// The parameters, among the inputs, whose gradients are the last outputs of a backward op; they may be frozen.
std::vector<std::size_t> parameters_of(const compiler::Op& op) {
  switch (op.kind) {
    case OpKind::layer_norm_backward:
    case OpKind::group_norm_backward:
      return {2, 2};
    case OpKind::rms_norm_backward:
      return {2};
    case OpKind::head_norm_backward:
      return {2, 3};
    case OpKind::linear_cross_entropy_backward:
      return op.inputs.size() > 3 ? std::vector<std::size_t>{1, 3} : std::vector<std::size_t>{1};
    case OpKind::chunk_cross_entropy_backward:
      return op.inputs.size() > 4 ? std::vector<std::size_t>{1, 4} : std::vector<std::size_t>{1};
    default:
      return {};
  }
}

// Outputs before the gradients of parameters.
std::size_t outputs_before(OpKind kind) { return kind == OpKind::linear_cross_entropy_backward ? 2 : 1; }

void run_whole(const ReferenceCall& call);

}  // namespace

// Gradients of frozen parameters are made, too, and dropped.
void run_reference(const ReferenceCall& call) {
  const std::vector<std::size_t> parameters = parameters_of(call.op);
  const std::size_t all = parameters.empty() ? 0 : outputs_before(call.op.kind) + parameters.size();
  if (call.op.outputs.size() >= all) return run_whole(call);
  Tensors padded = call.operands;
  for (std::size_t i = call.op.outputs.size(); i < all; ++i) {
    padded.emplace_back(call[parameters[i - outputs_before(call.op.kind)]].size());
  }
  run_whole({call.graph, call.op, call.parameters, padded, call.round});
  std::copy_n(padded.begin(), call.operands.size(), call.operands.begin());
}

namespace {

void run_whole(const ReferenceCall& call) {
  switch (call.op.kind) {
    case OpKind::embedding:
      return reference_embedding(call);
    case OpKind::embedding_backward:
      return reference_embedding_backward(call);
    case OpKind::layer_norm:
      return reference_layer_norm(call);
    case OpKind::layer_norm_backward:
      return reference_layer_norm_backward(call);
    case OpKind::matmul:
      return reference_matmul(call);
    case OpKind::bias_gradient:
      return reference_bias_gradient(call);
    case OpKind::gelu:
      return reference_gelu(call);
    case OpKind::gelu_backward:
      return reference_gelu_backward(call);
    case OpKind::tanh:
      return reference_tanh(call);
    case OpKind::tanh_backward:
      return reference_tanh_backward(call);
    case OpKind::sigmoid:
      return reference_sigmoid(call);
    case OpKind::sigmoid_backward:
      return reference_sigmoid_backward(call);
    case OpKind::silu:
      return reference_silu(call);
    case OpKind::silu_backward:
      return reference_silu_backward(call);
    case OpKind::hard_sigmoid:
      return reference_hard_sigmoid(call);
    case OpKind::hard_sigmoid_backward:
      return reference_hard_sigmoid_backward(call);
    case OpKind::hard_swish:
      return reference_hard_swish(call);
    case OpKind::hard_swish_backward:
      return reference_hard_swish_backward(call);
    case OpKind::relu:
      return reference_relu(call);
    case OpKind::relu_backward:
      return reference_relu_backward(call);
    case OpKind::multiply:
      return reference_multiply(call);
    case OpKind::attention:
      return reference_attention(call);
    case OpKind::cached_attention:
      return reference_cached_attention(call);
    case OpKind::attention_backward:
      return reference_attention_backward(call);
    case OpKind::dropout:
      return reference_dropout(call);
    case OpKind::add:
      return reference_add(call);
    case OpKind::columns:
      return reference_columns(call);
    case OpKind::add_columns:
      return reference_add_columns(call);
    case OpKind::linear_cross_entropy:
      return reference_linear_cross_entropy(call);
    case OpKind::linear_cross_entropy_backward:
      return reference_linear_cross_entropy_backward(call);
    case OpKind::squared_error:
    case OpKind::squared_error_backward:
      return reference_squared_error(call);
    case OpKind::choice_cross_entropy:
    case OpKind::choice_cross_entropy_backward:
      return reference_choice_cross_entropy(call);
    case OpKind::convert:
      return reference_convert(call);
    case OpKind::accumulate:
      return reference_accumulate(call);
    case OpKind::tree_sum:
      return reference_tree_sum(call);
    case OpKind::embedding_rows:
      return reference_embedding_rows(call);
    case OpKind::embedding_rows_backward:
      return reference_embedding_rows_backward(call);
    case OpKind::add_positions:
      return reference_add_positions(call);
    case OpKind::positions_backward:
      return reference_positions_backward(call);
    case OpKind::softmax_statistics:
      return reference_softmax_statistics(call);
    case OpKind::cross_entropy:
      return reference_cross_entropy(call);
    case OpKind::chunk_cross_entropy_backward:
      return reference_chunk_cross_entropy_backward(call);
    case OpKind::rms_norm:
      return reference_rms_norm(call);
    case OpKind::rms_norm_backward:
      return reference_rms_norm_backward(call);
    case OpKind::head_norm:
      return reference_head_norm(call);
    case OpKind::head_norm_backward:
      return reference_head_norm_backward(call);
    case OpKind::rotary:
      return reference_rotary(call);
    case OpKind::swiglu:
      return reference_swiglu(call);
    case OpKind::swiglu_backward:
      return reference_swiglu_backward(call);
    case OpKind::attention_probabilities:
      return reference_attention_probabilities(call);
    case OpKind::attention_probabilities_backward:
      return reference_attention_probabilities_backward(call);
    case OpKind::attention_mix:
      return reference_attention_mix(call);
    case OpKind::attention_mix_backward:
      return reference_attention_mix_backward(call);
    case OpKind::split_streams:
      return reference_split_streams(call);
    case OpKind::merge_streams:
      return reference_merge_streams(call);
    case OpKind::read_stream:
      return reference_read_stream(call);
    case OpKind::reversible_add:
      return reference_reversible_add(call);
    case OpKind::reshape:
      return reference_reshape(call);
    case OpKind::pad_columns:
      return reference_pad_columns(call);
    case OpKind::unpack:
      return reference_unpack(call);
    case OpKind::permute:
      return reference_permute(call);
    case OpKind::broadcast:
      return reference_broadcast(call);
    case OpKind::broadcast_backward:
      return reference_broadcast_backward(call);
    case OpKind::sum:
      return reference_sum(call);
    case OpKind::softmax:
      return reference_softmax(call);
    case OpKind::softmax_backward:
      return reference_softmax_backward(call);
    case OpKind::lookup:
      return reference_lookup(call);
    case OpKind::unfold:
      return reference_unfold(call);
    case OpKind::fold:
      return reference_fold(call);
    case OpKind::max_pool:
      return reference_max_pool(call);
    case OpKind::max_pool_backward:
      return reference_max_pool_backward(call);
    case OpKind::depthwise:
      return reference_depthwise(call);
    case OpKind::depthwise_backward:
      return reference_depthwise_backward(call);
    case OpKind::average_pool:
      return reference_average_pool(call);
    case OpKind::average_pool_backward:
      return reference_average_pool_backward(call);
    case OpKind::upsample:
      return reference_upsample(call);
    case OpKind::upsample_backward:
      return reference_upsample_backward(call);
    case OpKind::group_norm:
      return reference_group_norm(call);
    case OpKind::group_norm_backward:
      return reference_group_norm_backward(call);
    case OpKind::gather:
      return reference_gather(call);
    case OpKind::gather_backward:
      return reference_gather_backward(call);
    case OpKind::batch_norm:
      return reference_batch_norm(call);
    case OpKind::batch_statistics:
      return reference_batch_statistics(call);
    case OpKind::row_cross_entropy:
      return reference_row_cross_entropy(call);
    case OpKind::row_cross_entropy_backward:
      return reference_row_cross_entropy_backward(call);
    case OpKind::sample_loss:
    case OpKind::sample_loss_backward:
      return reference_sample_loss(call);
    case OpKind::dropout_add:
    case OpKind::add_layer_norm:
    case OpKind::add_rms_norm:
    case OpKind::layer_norm_backward_add:
    case OpKind::rms_norm_backward_add:
    case OpKind::gelu_backward_bias:
    case OpKind::dropout_bias:
      return reference_fused(call);
    case OpKind::custom:  // a program's own function: custom_test.cpp
    case OpKind::custom_backward:
    case OpKind::count:
      break;
  }
  throw Error("no reference");
}

}  // namespace

bool accumulates(const compiler::Op& op, std::size_t position) {
  switch (op.kind) {
    case OpKind::embedding_backward:
    case OpKind::embedding_rows:
    case OpKind::embedding_rows_backward:
    case OpKind::positions_backward:
    case OpKind::softmax_statistics:
    case OpKind::chunk_cross_entropy_backward:
    case OpKind::bias_gradient:
    case OpKind::accumulate:
    case OpKind::broadcast_backward:
    case OpKind::batch_statistics:
      return true;
    case OpKind::layer_norm_backward:
    case OpKind::rms_norm_backward:
    case OpKind::layer_norm_backward_add:
    case OpKind::rms_norm_backward_add:
    case OpKind::gelu_backward_bias:
    case OpKind::dropout_bias:
    case OpKind::head_norm_backward:
    case OpKind::depthwise_backward:
    case OpKind::group_norm_backward:
    case OpKind::cached_attention:
      return position > 0;
    case OpKind::linear_cross_entropy_backward:
      return position > 1;
    case OpKind::matmul:
      return op.attributes.accumulate;
    default:
      return false;
  }
}

bool bf16_ties_to_even = false;

double round_to(DType dtype, double value) {
  if (dtype == DType::f64) return value;
  if (dtype == DType::f32 || dtype == DType::i32 || value == 0 || !std::isfinite(value)) {
    return static_cast<double>(static_cast<float>(value));
  }
  if (dtype == DType::f16) {  // 11 significant bits, fewer below 2^-14; ties to even
    const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -14) - 10);
    const double rounded = std::nearbyint(value / unit) * unit;
    return std::abs(rounded) < 65536 ? rounded : std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  const double unit = std::ldexp(1.0, std::ilogb(value) - 7);  // bf16 has 8 significant bits
  return (bf16_ties_to_even ? std::nearbyint(value / unit) : std::round(value / unit)) * unit;
}

double dropout_factor(const ReferenceCall& call, std::int64_t element) {
  const compiler::Attributes& attributes = call.op.attributes;
  if (!call.parameters.training || attributes.probability == 0) return 1;
  const RngKey key{call.parameters.seed, call.parameters.step, call.parameters.layer, call.parameters.microbatch,
                   attributes.rng_op};
  const double p = static_cast<double>(attributes.probability), rounded = std::round(256 * p) / 256;
  const bool bytes = std::abs(rounded - p) <= std::min(p, 1 - p) / 32;
  if (call.parameters.dropout_masks == DropoutMasks::words || !bytes) {
    const PhiloxBlock block = philox(key, static_cast<std::uint32_t>(element / 4));
    return block[static_cast<std::size_t>(element % 4)] / 4294967296.0 >= p ? 1 / (1 - p) : 0;
  }
  const PhiloxBlock block = philox(key, static_cast<std::uint32_t>(element / 16));
  const std::uint32_t byte = block[static_cast<std::size_t>(element % 16 / 4)] >> (element % 4 * 8) & 255u;
  return byte / 256.0 >= rounded ? 1 / (1 - rounded) : 0;
}

}  // namespace l2l::test
