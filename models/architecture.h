// The architectures that options name: what distinguishes them, and the numbers that options leave to them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "l2l/options.h"

namespace l2l::models {

struct Architecture {
  std::string_view name;        // model.architecture
  std::string_view model_type;  // of Hugging Face configs
  bool encoder = false;         // predicts masked tokens, each of which sees all others; else each next token
  bool custom = false;          // a program's layers are the whole model, and samples are tensors
  bool images = false;          // custom, with layers that follow from options, of images and their classes
  // Positions are a table, dropout is possible, and the MLP has no gate. Otherwise positions are rotary.
  bool learned_positions = false;
  bool slides = false;        // layers may be of type "sliding_attention"
  bool soft_caps = false;     // attention_softcap and query_scale may be set; norms are (1 + weight), before and after
  bool head_norms = false;    // of queries and keys
  bool local_theta = false;   // sliding layers have a rotary base of their own
  bool query_bias = false;    // of the projections to queries, keys and values, always
  bool chooses_bias = false;  // attention_bias may be set
  bool chooses_mlp_bias = false;     // mlp_bias may be set
  bool tied = true;                  // tie_embeddings of a Hugging Face config that does not say
  double dropout = 0;                // where options do not say
  double norm_epsilon = 1e-5;        // likewise
  std::string_view activation = {};  // likewise
};

// Those that Hugging Face configs name.
std::span<const Architecture> architectures();
// The other ones: "revbifpn", and "custom".
std::span<const Architecture> custom_architectures();
// One of them all. Throws BadInput for an unknown name.
const Architecture& architecture_of(const std::string& name);

// `model` with every number set that it leaves to its architecture: kv_heads, head_dim, intermediate, positions,
// padding_token, norm_epsilon, activation, layer_types, query_scale, and those of rope_scaling.
ModelOptions with_defaults(ModelOptions model);

// Throws BadInput naming the keys that do not fit together or that the architecture has no use for.
void check_model(const ModelOptions& model);

}  // namespace l2l::models
