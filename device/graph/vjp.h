// Vector-Jacobian products: one function per differentiable op kind, named in the op table. Each reads the gradient of
// the op's first output and appends what carries it on; parameters first, so that the gradient dies with the op.
#pragma once

#include "device/graph/graph.h"

namespace l2l::device::graph {

class Backward;

void embedding_vjp(Backward& backward, const Op& op);
void layer_norm_vjp(Backward& backward, const Op& op);
void matmul_vjp(Backward& backward, const Op& op);
void gelu_vjp(Backward& backward, const Op& op);
void attention_vjp(Backward& backward, const Op& op);
void dropout_vjp(Backward& backward, const Op& op);
void add_vjp(Backward& backward, const Op& op);
void linear_cross_entropy_vjp(Backward& backward, const Op& op);
void rms_norm_vjp(Backward& backward, const Op& op);
void rotary_vjp(Backward& backward, const Op& op);
void swiglu_vjp(Backward& backward, const Op& op);
void add_positions_vjp(Backward& backward, const Op& op);
void attention_probabilities_vjp(Backward& backward, const Op& op);
void attention_mix_vjp(Backward& backward, const Op& op);
void split_streams_vjp(Backward& backward, const Op& op);
void merge_streams_vjp(Backward& backward, const Op& op);
void read_stream_vjp(Backward& backward, const Op& op);
void couple_vjp(Backward& backward, const Op& op);

}  // namespace l2l::device::graph
