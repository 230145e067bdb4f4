// One function per op, each defined in the .cu file named after it (device/kernels/).
#pragma once

#include "device/cuda/kernel.h"

namespace l2l::device::cuda {

// Throws BadInput when the op's dtypes or shapes have no kernel.
using Factory = std::unique_ptr<Kernel>(const Context& context, const graph::Graph& graph, const graph::Op& op);

Factory make_embedding __attribute__((weak));
Factory make_embedding_backward __attribute__((weak));
Factory make_layer_norm __attribute__((weak));
Factory make_layer_norm_backward __attribute__((weak));
Factory make_matmul __attribute__((weak));
Factory make_bias_gradient __attribute__((weak));
Factory make_gelu __attribute__((weak));
Factory make_gelu_backward __attribute__((weak));
Factory make_attention __attribute__((weak));
Factory make_attention_backward __attribute__((weak));
Factory make_dropout __attribute__((weak));
Factory make_add __attribute__((weak));
Factory make_linear_cross_entropy __attribute__((weak));
Factory make_linear_cross_entropy_backward __attribute__((weak));
Factory make_convert __attribute__((weak));
Factory make_embedding_rows __attribute__((weak));
Factory make_embedding_rows_backward __attribute__((weak));
Factory make_add_positions __attribute__((weak));
Factory make_positions_backward __attribute__((weak));
Factory make_softmax_statistics __attribute__((weak));
Factory make_cross_entropy __attribute__((weak));
Factory make_chunk_cross_entropy_backward __attribute__((weak));
Factory make_rms_norm __attribute__((weak));
Factory make_rms_norm_backward __attribute__((weak));
Factory make_rotary __attribute__((weak));
Factory make_swiglu __attribute__((weak));
Factory make_swiglu_backward __attribute__((weak));
Factory make_matmul_gelu __attribute__((weak));
Factory make_dropout_add __attribute__((weak));
Factory make_add_layer_norm __attribute__((weak));
Factory make_add_rms_norm __attribute__((weak));
Factory make_layer_norm_backward_add __attribute__((weak));
Factory make_rms_norm_backward_add __attribute__((weak));
Factory make_gelu_backward_bias __attribute__((weak));
Factory make_dropout_bias __attribute__((weak));

}  // namespace l2l::device::cuda
