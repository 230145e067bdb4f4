#include "models/architecture.h"

#include "models/own_layers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "l2l/errors.h"

namespace l2l::models {
namespace {

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

constexpr std::array<Architecture, 9> kArchitectures = {{
    {.name = "gpt2", .model_type = "gpt2", .learned_positions = true, .dropout = 0.1, .activation = "gelu_tanh"},
    {.name = "bert",
     .model_type = "bert",
     .encoder = true,
     .learned_positions = true,
     .dropout = 0.1,
     .norm_epsilon = 1e-12,
     .activation = "gelu"},
    {.name = "roberta",
     .model_type = "roberta",
     .encoder = true,
     .learned_positions = true,
     .dropout = 0.1,
     .norm_epsilon = 1e-12,
     .activation = "gelu"},
    {.name = "llama",
     .model_type = "llama",
     .chooses_bias = true,
     .chooses_mlp_bias = true,
     .tied = false,
     .activation = "silu"},
    {.name = "mistral", .model_type = "mistral", .slides = true, .tied = false, .activation = "silu"},
    {.name = "qwen2",
     .model_type = "qwen2",
     .slides = true,
     .query_bias = true,
     .tied = false,
     .norm_epsilon = 1e-6,
     .activation = "silu"},
    {.name = "qwen3",
     .model_type = "qwen3",
     .slides = true,
     .head_norms = true,
     .chooses_bias = true,
     .tied = false,
     .norm_epsilon = 1e-6,
     .activation = "silu"},
    {.name = "gemma2",
     .model_type = "gemma2",
     .slides = true,
     .soft_caps = true,
     .chooses_bias = true,
     .norm_epsilon = 1e-6,
     .activation = "gelu_tanh"},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .slides = true,
     .soft_caps = true,
     .head_norms = true,
     .local_theta = true,
     .chooses_bias = true,
     .norm_epsilon = 1e-6,
     .activation = "gelu_tanh"},
}};

constexpr std::array<Architecture, 2> kCustom = {
    {{.name = "revbifpn",
      .model_type = "",
      .custom = true,
      .images = true,
      .learned_positions = true,
      .activation = "gelu"},
     {.name = "custom", .model_type = "", .custom = true, .learned_positions = true, .activation = "gelu"}}};

std::string show(std::string_view key, std::int64_t value) {
  return "model." + std::string(key) + " = " + std::to_string(value);
}

std::string show(std::string_view key, const std::string& value) {
  return "model." + std::string(key) + " = \"" + value + "\"";
}

std::vector<std::string> layer_types(const ModelOptions& model) {
  if (model.sliding_window == 0) return {std::string(kFull)};
  if (!model.layer_types.empty()) return model.layer_types;
  if (model.architecture == "mistral") return {std::string(kSliding)};
  const std::size_t period = model.architecture == "gemma2" ? 2 : model.architecture == "gemma3" ? 6 : 1;
  std::vector<std::string> types(period, std::string(kSliding));
  types.back() = kFull;
  return types;
}

// Every key that only some architectures use, whether it is set, and whether this one uses it.
void check_uses(const ModelOptions& model, const Architecture& architecture) {
  const ModelOptions unset;
  const bool rotary = !architecture.learned_positions, positions = architecture.learned_positions;
  const bool roberta = architecture.name == "roberta", gemma3 = architecture.local_theta;
  const struct {
    std::string_view key;
    bool set, used;
  } keys[] = {
      {"kv_heads", model.kv_heads > 0, rotary},
      {"head_dim", model.head_dim > 0, rotary},
      {"token_types", model.token_types != unset.token_types, architecture.encoder},
      {"padding_token", model.padding_token >= 0, roberta},
      {"dropout", model.dropout > 0, positions},
      {"attention_bias", model.attention_bias, architecture.chooses_bias},
      {"mlp_bias", model.mlp_bias, architecture.chooses_mlp_bias},
      {"sliding_window", model.sliding_window > 0, architecture.slides},
      {"layer_types", !model.layer_types.empty(), architecture.slides},
      {"attention_softcap", model.attention_softcap > 0, architecture.soft_caps && !gemma3},
      {"logit_softcap", model.logit_softcap > 0, architecture.soft_caps},
      {"query_scale", model.query_scale > 0, architecture.soft_caps},
      {"rope_theta", model.rope_theta != unset.rope_theta, rotary},
      {"rope_local_theta", model.rope_local_theta != unset.rope_local_theta, gemma3},
      {"rope_scaling", model.rope_scaling != "none", rotary},
      {"variant", model.variant != unset.variant, architecture.images},
      {"image_size", model.image_size > 0, architecture.images},
      {"image_channels", model.image_channels != unset.image_channels, architecture.images},
  };
  for (const auto& key : keys) {
    if (!key.set || key.used) continue;
    throw BadInput("model." + std::string(key.key) + " is set, but " + std::string(architecture.name) +
                   (key.key == "dropout" ? " has no dropout: remove it, or set it to 0"
                                         : " has no use for it: remove it, or set another model.architecture"));
  }
}

void check_heads(const ModelOptions& model, const Architecture& architecture) {
  if (model.head_dim == 0 && model.hidden % model.heads != 0) {
    throw BadInput(show("hidden", model.hidden) + " is not divisible by " + show("heads", model.heads));
  }
  if (architecture.learned_positions) return;
  if (model.kv_heads > 0 && model.heads % model.kv_heads != 0) {
    throw BadInput(show("heads", model.heads) + " is not divisible by " + show("kv_heads", model.kv_heads));
  }
  const std::int64_t size = model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
  if (size % 2 == 0) return;
  throw BadInput((model.head_dim > 0
                      ? show("head_dim", size) + " is odd"
                      : show("hidden", model.hidden) + " gives " + show("heads", model.heads) + " heads an odd size") +
                 "; rotary positions turn pairs of elements, so make it even");
}

// Elements of an MLP with a gate are made by a product of both halves; the others know no SiLU.
void check_activation(const ModelOptions& model, const Architecture& architecture) {
  if (model.activation != "silu" || !architecture.learned_positions) return;
  throw BadInput(show("activation", model.activation) + ": the MLP of " + std::string(architecture.name) +
                 " has no gate; set it to \"gelu\" or \"gelu_tanh\"");
}

void check_layer_types(const ModelOptions& model) {
  for (const std::string& type : model.layer_types) {
    if (type == kFull || type == kSliding) continue;
    throw BadInput(show("layer_types", type) +
                   " is not supported; accepted: \"full_attention\", \"sliding_attention\"");
  }
  if (model.blocks.empty() && static_cast<std::int64_t>(model.layer_types.size()) > model.layers) {
    throw BadInput("model.layer_types has " + std::to_string(model.layer_types.size()) + " entries, but " +
                   show("layers", model.layers));
  }
  const bool slides = std::count(model.layer_types.begin(), model.layer_types.end(), kSliding) > 0;
  if (slides && model.sliding_window == 0) {
    throw BadInput("model.layer_types has sliding layers, but model.sliding_window is not set");
  }
}

void check_positions(const ModelOptions& model, const Architecture& architecture) {
  if (architecture.name == "roberta") {
    const std::int64_t first = (model.padding_token < 0 ? 1 : model.padding_token) + 1;
    if (model.positions > 0 && model.sequence > model.positions - first) {
      throw BadInput(show("sequence", model.sequence) + ": " + show("positions", model.positions) +
                     " leaves room for " + std::to_string(model.positions - first) +
                     ", since those of roberta begin behind its padding token");
    }
    return;
  }
  // "dynamic" is meant for sequences beyond the original context.
  if (model.positions == 0 || model.sequence <= model.positions || model.rope_scaling == "dynamic") return;
  throw BadInput(show("sequence", model.sequence) + " exceeds " + show("positions", model.positions) +
                 ", the longest sequence that the model is made for");
}

void check_rope(const ModelOptions& model) {
  if (model.rope_scaling == "llama3" && model.rope_low_frequency >= model.rope_high_frequency) {
    throw BadInput("model.rope_low_frequency must be below model.rope_high_frequency");
  }
  const std::int64_t head = model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
  if (model.rope_scaling == "dynamic" && head <= 2) {
    throw BadInput("model.rope_scaling = \"dynamic\" needs heads of more than 2 elements");
  }
}

void check_reversible(const ModelOptions& model, const Architecture& architecture) {
  if (model.reversible == "none" || !architecture.encoder) return;
  throw BadInput(show("reversible", model.reversible) + ": the norms behind the sums of " + model.architecture +
                 " cannot be undone; set it to \"none\", or take another architecture");
}

// What transformers have a class for, and names that fit.
void check_head(const ModelOptions& model, const Architecture& architecture) {
  if (model.head == "choice" && !architecture.encoder) {
    throw BadInput(show("head", model.head) + " is for encoders: bert, roberta; architecture is " + model.architecture);
  }
  if (model.head == "tokens" && architecture.name == "gemma3") {
    throw BadInput(show("head", model.head) + ": transformers have no such class of gemma3");
  }
  const bool classes = model.head == "classification" || model.head == "tokens" || architecture.images;
  if (model.label_names.empty()) return;
  if (!classes) throw BadInput("model.label_names is set, but " + show("head", model.head) + " has no classes");
  if (static_cast<std::int64_t>(model.label_names.size()) != model.labels) {
    throw BadInput("model.label_names has " + std::to_string(model.label_names.size()) + " names for " +
                   show("labels", model.labels));
  }
  for (std::size_t i = 0; i < model.label_names.size(); ++i) {
    if (std::count(model.label_names.begin(), model.label_names.end(), model.label_names[i]) == 1) continue;
    throw BadInput("model.label_names has \"" + model.label_names[i] + "\" twice");
  }
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }
std::span<const Architecture> custom_architectures() { return kCustom; }

const Architecture& architecture_of(const std::string& name) {
  for (const std::span<const Architecture> some : {architectures(), custom_architectures()}) {
    for (const Architecture& architecture : some) {
      if (architecture.name == name) return architecture;
    }
  }
  throw BadInput(show("architecture", name) + ": is not known");
}

ModelOptions with_defaults(ModelOptions model) {
  const Architecture& architecture = architecture_of(model.architecture);
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0) model.head_dim = model.hidden / model.heads;
  if (model.intermediate == 0) {
    // With a gate, as the models published by Touvron et al. (2023).
    model.intermediate = architecture.learned_positions ? 4 * model.hidden : (8 * model.hidden / 3 + 255) / 256 * 256;
  }
  const bool roberta = architecture.name == "roberta";
  if (model.padding_token < 0) model.padding_token = roberta ? 1 : 0;
  if (model.positions == 0) model.positions = model.sequence + (roberta ? model.padding_token + 1 : 0);
  if (model.norm_epsilon == 0) model.norm_epsilon = architecture.norm_epsilon;
  if (model.activation == "auto") model.activation = architecture.activation;
  model.layer_types = layer_types(model);
  if (model.query_scale == 0) model.query_scale = static_cast<double>(model.head_dim);
  if (model.rope_original_positions == 0) model.rope_original_positions = model.positions;
  if (model.rope_attention_factor == 0) {
    model.rope_attention_factor =
        model.rope_scaling == "yarn" ? 0.1 * std::log(std::max(1.0, model.rope_factor)) + 1 : 1;
  }
  return model;
}

void check_model(const ModelOptions& model) {
  const Architecture& architecture = architecture_of(model.architecture);
  check_uses(model, architecture);
  check_heads(model, architecture);
  check_activation(model, architecture);
  check_layer_types(model);
  check_positions(model, architecture);
  check_rope(model);
  check_reversible(model, architecture);
  check_head(model, architecture);
  check_layers(model);
  check_reserve(model);
  const bool custom = architecture.custom;
  if (custom != (model.head == "custom")) {
    throw BadInput(
        show("head", model.head) + " with " + show("architecture", model.architecture) + ": " +
        (architecture.images ? "it has a head of its own; leave model.head out" : "\"custom\" is both or neither"));
  }
  if (!custom && (!model.inputs.empty() || !model.targets.empty() || model.loss)) {
    throw BadInput("model.inputs, targets and loss are for model.architecture = \"custom\"; it is " +
                   model.architecture);
  }
  if (model.blocks.empty() && !model.block_names.empty()) {
    throw BadInput("model.blocks: the model has " + std::to_string(model.block_names.size()) +
                   " layers that a program describes (" + model.block_names.front() +
                   ", ...): only that program can run it");
  }
  const bool of_program = !model.blocks.empty() || !model.inputs.empty() || !model.targets.empty();
  if (!of_program && (!model.input_names.empty() || !model.target_names.empty())) {
    throw BadInput("model.inputs and model.targets are those of a program, not of a config; remove them");
  }
  if (custom) check_custom(model);
  if (!model.blocks.empty() && model.reversible != "none" && (!custom || model.reserve)) {
    throw BadInput("model.blocks: " + show("reversible", model.reversible) +
                   " takes blocks of the architecture alone, or a custom model whose layers are not exchanged");
  }
}

}  // namespace l2l::models
