// One function per op, each defined in the file named after it.
#pragma once

#include <memory>

#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

using Factory = std::unique_ptr<Kernel>(const compiler::Graph& graph, const compiler::Op& op);

Factory make_embedding;
Factory make_embedding_backward;
Factory make_layer_norm;
Factory make_layer_norm_backward;
Factory make_matmul;
Factory make_bias_gradient;
Factory make_gelu;
Factory make_gelu_backward;
Factory make_attention;
Factory make_attention_backward;
Factory make_dropout;
Factory make_add;
Factory make_linear_cross_entropy;
Factory make_linear_cross_entropy_backward;
Factory make_convert;
Factory make_embedding_rows;
Factory make_embedding_rows_backward;
Factory make_add_positions;
Factory make_positions_backward;
Factory make_softmax_statistics;
Factory make_cross_entropy;
Factory make_chunk_cross_entropy_backward;
Factory make_rms_norm;
Factory make_rms_norm_backward;
Factory make_rotary;
Factory make_swiglu;
Factory make_swiglu_backward;
Factory make_attention_probabilities;
Factory make_attention_probabilities_backward;
Factory make_attention_mix;
Factory make_attention_mix_backward;
Factory make_split_streams;
Factory make_merge_streams;
Factory make_read_stream;
Factory make_reversible_add;
// All ops that unfused() takes apart.
Factory make_fused;

}  // namespace l2l::device::kernels
