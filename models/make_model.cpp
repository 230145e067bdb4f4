#include "models/make_model.h"

#include "models/architecture.h"
#include "models/families.h"

namespace l2l::models {
namespace {

Reversible reversible_of(const std::string& name) {
  if (name == "float") return Reversible::floating;
  return name == "fixed" ? Reversible::fixed : Reversible::no;
}

Activation activation_of(const std::string& name) {
  if (name == "silu") return Activation::silu;
  return name == "gelu" ? Activation::gelu : Activation::gelu_tanh;
}

compiler::RotaryScaling rope_scaling(const ModelOptions& model) {
  using Kind = compiler::RotaryScaling::Kind;
  if (model.rope_scaling == "none") return {};
  const Kind kind = model.rope_scaling == "linear"    ? Kind::linear
                    : model.rope_scaling == "dynamic" ? Kind::dynamic
                    : model.rope_scaling == "llama3"  ? Kind::llama3
                                                      : Kind::yarn;
  return {.kind = kind,
          .factor = static_cast<float>(model.rope_factor),
          .positions = kind == Kind::dynamic ? model.positions : model.rope_original_positions,
          .low_frequency = static_cast<float>(model.rope_low_frequency),
          .high_frequency = static_cast<float>(model.rope_high_frequency),
          .beta_fast = static_cast<float>(model.rope_beta_fast),
          .beta_slow = static_cast<float>(model.rope_beta_slow),
          .truncate = model.rope_truncate,
          .magnitude = static_cast<float>(model.rope_attention_factor)};
}

std::vector<bool> sliding_of(const ModelOptions& model) {
  std::vector<bool> sliding;
  for (const std::string& type : model.layer_types) sliding.push_back(type == "sliding_attention");
  return sliding;
}

TransformerShape make_shape(const ModelOptions& model, const Architecture& architecture,
                            const ModelSettings& settings) {
  TransformerShape shape{.layers = model.layers,
                         .hidden = model.hidden,
                         .heads = model.heads,
                         .intermediate = model.intermediate,
                         .vocabulary = model.vocabulary,
                         .sequence = model.sequence,
                         .micro_batch = settings.micro_batch,
                         .dropout = static_cast<float>(model.dropout),
                         .compute = settings.compute,
                         .vocabulary_chunk = settings.vocabulary_chunk,
                         .kv_heads = model.kv_heads,
                         .head_size = model.head_dim,
                         .rope_theta = static_cast<float>(model.rope_theta),
                         .norm_epsilon = static_cast<float>(model.norm_epsilon),
                         .tie_embeddings = model.tie_embeddings,
                         .core_attention = model.attention == "core",
                         .reversible = reversible_of(model.reversible),
                         .packed = settings.packed,
                         .cache = settings.cache,
                         .context = model.sequence,
                         .keeps_inputs = settings.keeps_inputs};
  shape.train = settings.train;
  shape.lora = settings.lora;
  shape.shard = settings.shard;
  shape.whole_rows = settings.whole_rows;
  shape.blocks = model.blocks;
  shape.reserve = model.reserve;
  shape.inputs = model.inputs;
  shape.targets = model.targets;
  shape.loss = model.loss;
  shape.head_kind = head_kind_of(model.head);
  const bool one_number = shape.head_kind == HeadKind::regression || shape.head_kind == HeadKind::choice;
  const bool has_classes = shape.head_kind == HeadKind::classification || shape.head_kind == HeadKind::tokens;
  shape.labels = one_number ? 1 : has_classes ? model.labels : 0;
  shape.positions = model.positions;
  shape.first_position = architecture.name == "roberta" ? model.padding_token + 1 : 0;
  shape.token_types = model.token_types;
  shape.activation = activation_of(model.activation);
  shape.qkv_bias = architecture.query_bias || model.attention_bias;
  shape.output_bias = model.attention_bias;
  shape.mlp_bias = model.mlp_bias;
  shape.head_norms = architecture.head_norms;
  shape.sliding = sliding_of(model);
  shape.window = model.sliding_window;
  if (architecture.local_theta) shape.local_theta = static_cast<float>(model.rope_local_theta);
  shape.rope_scaling = rope_scaling(model);
  if (architecture.soft_caps) shape.query_scale = static_cast<float>(model.query_scale);
  shape.attention_softcap = static_cast<float>(model.attention_softcap);
  shape.logit_softcap = static_cast<float>(model.logit_softcap);
  if (settings.sequence > 0) {
    shape.positions = shape.position_rows();
    shape.sequence = settings.sequence;
  }
  return shape;
}

}  // namespace

HeadKind head_kind_of(std::string_view name) {
  if (name == "classification") return HeadKind::classification;
  if (name == "regression") return HeadKind::regression;
  if (name == "tokens") return HeadKind::tokens;
  if (name == "custom") return HeadKind::custom;
  return name == "choice" ? HeadKind::choice : HeadKind::language;
}

Model make_model(const ModelOptions& options, const ModelSettings& settings) {
  const ModelOptions model = with_defaults(options);
  const Architecture& architecture = architecture_of(model.architecture);
  const TransformerShape shape = make_shape(model, architecture, settings);
  if (architecture.custom) return make_custom(shape);
  if (architecture.name == "gpt2") return make_gpt2(shape);
  if (architecture.name == "bert") return make_bert(shape);
  if (architecture.name == "roberta") return make_roberta(shape);
  return architecture.soft_caps ? make_gemma(shape) : make_llama(shape);
}

}  // namespace l2l::models
