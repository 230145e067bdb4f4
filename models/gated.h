// The two branches of a block with rotary positions and a gated MLP, without their norms: what Llama and Gemma share.
#pragma once

#include "models/family.h"

namespace l2l::models {

// `unit_offset`: RMS norms multiply by 1 + weight, whose weights begin at 0 instead of 1.
compiler::ValueId rms_norm(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId x,
                           const TransformerShape& shape, const std::string& name, bool unit_offset);
// From a normed x [rows, hidden] to a result of the same shape: self_attn.* and mlp.*. Matrices are [out, in]; those of
// queries, keys and values, and of gate and up, are neighbours in the wire and make one product.
compiler::ValueId rotary_attention(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId normed,
                                   const TransformerShape& shape, bool unit_offset);
// `gate`: the activation where the shape does not say.
compiler::ValueId gated_mlp(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId normed,
                            const TransformerShape& shape, Activation gate);

}  // namespace l2l::models
