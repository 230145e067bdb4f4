// Models with rotary positions and gated MLPs: what Llama and Gemma share.
#pragma once

#include "models/family.h"

namespace l2l::models {

// What an RMS norm multiplies by. Weights begin at 1, or at 0 where 1 is added to them.
enum class Gain : std::uint8_t { weight, one_plus_weight };

compiler::ValueId rms_norm(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId x,
                           const TransformerShape& shape, const std::string& name, Gain gain);

// The two branches of a block without their norms. From a normed x [rows, hidden] to a result of the same shape:
// self_attn.* and mlp.*. Matrices are [out, in]; those of queries, keys and values, and of gate and up, are neighbours
// in the wire and make one product.
compiler::ValueId rotary_attention(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId normed,
                                   const TransformerShape& shape, Gain gain);
// `gate`: the activation where the shape does not say.
compiler::ValueId gated_mlp(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId normed,
                            const TransformerShape& shape, Activation gate);

// All but the branches: table, final norm, and the names of the Hugging Face files.
Family gated_family(const TransformerShape& shape, Gain gain);

}  // namespace l2l::models
