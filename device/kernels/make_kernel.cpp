#include "device/kernels/factories.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {
namespace {

Factory& factory_of(compiler::OpKind kind) {
  using compiler::OpKind;
  switch (kind) {
    case OpKind::embedding:
      return make_embedding;
    case OpKind::embedding_backward:
      return make_embedding_backward;
    case OpKind::layer_norm:
      return make_layer_norm;
    case OpKind::layer_norm_backward:
      return make_layer_norm_backward;
    case OpKind::matmul:
      return make_matmul;
    case OpKind::bias_gradient:
      return make_bias_gradient;
    case OpKind::gelu:
      return make_gelu;
    case OpKind::gelu_backward:
      return make_gelu_backward;
    case OpKind::attention:
      return make_attention;
    case OpKind::attention_backward:
      return make_attention_backward;
    case OpKind::dropout:
      return make_dropout;
    case OpKind::add:
      return make_add;
    case OpKind::linear_cross_entropy:
      return make_linear_cross_entropy;
    case OpKind::linear_cross_entropy_backward:
      return make_linear_cross_entropy_backward;
    case OpKind::convert:
      return make_convert;
    case OpKind::embedding_rows:
      return make_embedding_rows;
    case OpKind::embedding_rows_backward:
      return make_embedding_rows_backward;
    case OpKind::add_positions:
      return make_add_positions;
    case OpKind::positions_backward:
      return make_positions_backward;
    case OpKind::softmax_statistics:
      return make_softmax_statistics;
    case OpKind::cross_entropy:
      return make_cross_entropy;
    case OpKind::chunk_cross_entropy_backward:
      return make_chunk_cross_entropy_backward;
    case OpKind::matmul_gelu:
    case OpKind::dropout_add:
    case OpKind::add_layer_norm:
    case OpKind::add_rms_norm:
    case OpKind::layer_norm_backward_add:
    case OpKind::rms_norm_backward_add:
    case OpKind::gelu_backward_bias:
    case OpKind::dropout_bias:
      return make_fused;
    case OpKind::rms_norm:
      return make_rms_norm;
    case OpKind::rms_norm_backward:
      return make_rms_norm_backward;
    case OpKind::rotary:
      return make_rotary;
    case OpKind::swiglu:
      return make_swiglu;
    case OpKind::swiglu_backward:
      return make_swiglu_backward;
    case OpKind::attention_probabilities:
      return make_attention_probabilities;
    case OpKind::attention_probabilities_backward:
      return make_attention_probabilities_backward;
    case OpKind::attention_mix:
      return make_attention_mix;
    case OpKind::attention_mix_backward:
      return make_attention_mix_backward;
    case OpKind::split_streams:
      return make_split_streams;
    case OpKind::merge_streams:
      return make_merge_streams;
    case OpKind::read_stream:
      return make_read_stream;
    case OpKind::reversible_add:
      return make_reversible_add;
    case OpKind::count:
      break;
  }
  throw Error("make_kernel: no op of kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace

std::unique_ptr<Kernel> make_kernel(const compiler::Graph& graph, std::size_t index) {
  const compiler::Op& op = graph.ops.at(index);
  try {
    return factory_of(op.kind)(graph, op);
  } catch (const BadInput& error) {
    throw BadInput(graph.name + ", op " + std::to_string(index) + ": " + error.what());
  }
}

}  // namespace l2l::device::kernels
