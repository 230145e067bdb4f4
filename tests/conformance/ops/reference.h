// Float64 references of every op: straightforward loops that share nothing with the kernels but core/philox.h.
#pragma once

#include <functional>
#include <vector>

#include "compiler/ir/graph.h"
#include "device/device.h"

namespace l2l::test {

using Tensor = std::vector<double>;
using Tensors = std::vector<Tensor>;  // of one op: inputs, then outputs

struct ReferenceCall {
  const compiler::Graph& graph;
  const compiler::Op& op;
  const device::LaunchParameters& parameters;
  Tensors& operands;
  bool round = true;  // round the values inside an op as its dtype prescribes (dlogits); finite differences do not

  const Shape& shape(std::size_t position) const {
    const std::size_t inputs = op.inputs.size();
    return graph.value(position < inputs ? op.inputs[position] : op.outputs[position - inputs]).shape;
  }
  DType dtype(std::size_t position) const {
    const std::size_t inputs = op.inputs.size();
    return graph.value(position < inputs ? op.inputs[position] : op.outputs[position - inputs]).dtype;
  }
  Tensor& operator[](std::size_t position) const { return operands[position]; }
  Tensor& output(std::size_t position) const { return operands[op.inputs.size() + position]; }
  // The op's last input where that is i32 and at `position`: documents or places of rows; else nullptr.
  const Tensor* of_rows(std::size_t position) const {
    return op.inputs.size() == position + 1 && dtype(position) == DType::i32 ? &operands[position] : nullptr;
  }
};

// Writes the outputs; accumulators hold their values before, and are added to.
void run_reference(const ReferenceCall& call);

// True when output `position` (among the outputs) is added to and not overwritten.
bool accumulates(const compiler::Op& op, std::size_t position);

// Where bf16 ties go: away from zero on the host (core/dtype.h), to even on a GPU. Set before the first reference runs.
extern bool bf16_ties_to_even;

// Nearest value of `dtype`.
double round_to(DType dtype, double value);

// 0 where dropout kills the element, else 1 / (1 - p); 1 when not training.
double dropout_factor(const ReferenceCall& call, std::int64_t element);

// The row of a table of positions that belongs to `row`.
std::size_t place_of(const ReferenceCall& call, const Tensor* places, std::size_t row);

void reference_embedding(const ReferenceCall& call);
void reference_embedding_backward(const ReferenceCall& call);
void reference_layer_norm(const ReferenceCall& call);
void reference_layer_norm_backward(const ReferenceCall& call);
void reference_matmul(const ReferenceCall& call);
void reference_bias_gradient(const ReferenceCall& call);
void reference_gelu(const ReferenceCall& call);
void reference_gelu_backward(const ReferenceCall& call);
void reference_tanh(const ReferenceCall& call);
void reference_tanh_backward(const ReferenceCall& call);
void reference_sigmoid(const ReferenceCall& call);
void reference_sigmoid_backward(const ReferenceCall& call);
void reference_silu(const ReferenceCall& call);
void reference_silu_backward(const ReferenceCall& call);
void reference_hard_sigmoid(const ReferenceCall& call);
void reference_hard_sigmoid_backward(const ReferenceCall& call);
void reference_hard_swish(const ReferenceCall& call);
void reference_hard_swish_backward(const ReferenceCall& call);
void reference_relu(const ReferenceCall& call);
void reference_relu_backward(const ReferenceCall& call);
void reference_multiply(const ReferenceCall& call);
void reference_attention(const ReferenceCall& call);
void reference_cached_attention(const ReferenceCall& call);
void reference_attention_backward(const ReferenceCall& call);
void reference_dropout(const ReferenceCall& call);
void reference_add(const ReferenceCall& call);
void reference_columns(const ReferenceCall& call);
void reference_add_columns(const ReferenceCall& call);
void reference_linear_cross_entropy(const ReferenceCall& call);
void reference_linear_cross_entropy_backward(const ReferenceCall& call);
void reference_squared_error(const ReferenceCall& call);         // and its gradient, where there is room for it
void reference_choice_cross_entropy(const ReferenceCall& call);  // likewise
void reference_accumulate(const ReferenceCall& call);
void reference_tree_sum(const ReferenceCall& call);
void reference_convert(const ReferenceCall& call);
void reference_split_streams(const ReferenceCall& call);
void reference_merge_streams(const ReferenceCall& call);
void reference_read_stream(const ReferenceCall& call);
void reference_reversible_add(const ReferenceCall& call);
void reference_embedding_rows(const ReferenceCall& call);
void reference_embedding_rows_backward(const ReferenceCall& call);
void reference_add_positions(const ReferenceCall& call);
void reference_positions_backward(const ReferenceCall& call);
void reference_softmax_statistics(const ReferenceCall& call);
void reference_cross_entropy(const ReferenceCall& call);
void reference_chunk_cross_entropy_backward(const ReferenceCall& call);
// A logit after the op's cap, and the derivative of the cap where it gives `capped`.
double capped_logit(const ReferenceCall& call, double logit);
double logit_slope(const ReferenceCall& call, double capped);
// What is added to a norm's weights to make its gain.
double gain_offset(const ReferenceCall& call);
void reference_head_norm(const ReferenceCall& call);
void reference_head_norm_backward(const ReferenceCall& call);
void reference_rms_norm(const ReferenceCall& call);
void reference_rms_norm_backward(const ReferenceCall& call);
void reference_rotary(const ReferenceCall& call);
void reference_swiglu(const ReferenceCall& call);
void reference_swiglu_backward(const ReferenceCall& call);
void reference_attention_probabilities(const ReferenceCall& call);
void reference_attention_probabilities_backward(const ReferenceCall& call);
void reference_attention_mix(const ReferenceCall& call);
void reference_attention_mix_backward(const ReferenceCall& call);
// Of layers of a program's own.
void reference_reshape(const ReferenceCall& call);
void reference_pad_columns(const ReferenceCall& call);
void reference_unpack(const ReferenceCall& call);
void reference_permute(const ReferenceCall& call);
void reference_broadcast(const ReferenceCall& call);
void reference_broadcast_backward(const ReferenceCall& call);
void reference_sum(const ReferenceCall& call);
void reference_softmax(const ReferenceCall& call);
void reference_softmax_backward(const ReferenceCall& call);
void reference_lookup(const ReferenceCall& call);
void reference_unfold(const ReferenceCall& call);
void reference_fold(const ReferenceCall& call);
void reference_max_pool(const ReferenceCall& call);
void reference_max_pool_backward(const ReferenceCall& call);
void reference_depthwise(const ReferenceCall& call);
void reference_depthwise_backward(const ReferenceCall& call);
void reference_average_pool(const ReferenceCall& call);
void reference_average_pool_backward(const ReferenceCall& call);
void reference_upsample(const ReferenceCall& call);
void reference_upsample_backward(const ReferenceCall& call);
void reference_group_norm(const ReferenceCall& call);
void reference_group_norm_backward(const ReferenceCall& call);
void reference_gather(const ReferenceCall& call);
void reference_gather_backward(const ReferenceCall& call);
void reference_batch_norm(const ReferenceCall& call);
void reference_batch_statistics(const ReferenceCall& call);
void reference_row_cross_entropy(const ReferenceCall& call);
void reference_row_cross_entropy_backward(const ReferenceCall& call);
void reference_sample_loss(const ReferenceCall& call);  // and its gradient, where there is room for it
// Any fused op: its parts, one after the other; what a later part reads is rounded to its dtype.
void reference_fused(const ReferenceCall& call);

}  // namespace l2l::test
