#include "models/hub/config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "core/files.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "models/hub/config_reader.h"

namespace l2l::models {
namespace {

constexpr Bytes kMostConfig = 1 << 24;
constexpr std::int64_t kMostSize = 1 << 24;
constexpr std::int64_t kMostLayers = 10'000;
// In fp32. Options take 0 for the architecture's own.
constexpr double kLeastEpsilon = 1e-37;
constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

// What transformers 5 takes for a key that is missing.
constexpr std::int64_t kMostLabels = 1 << 20;

struct Defaults {
  std::string_view architecture;
  std::int64_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim,
      positions;  // 0: follows from others
  double norm_epsilon = 1e-6;
  std::int64_t sliding_window = 0;
  double attention_softcap = 0, logit_softcap = 0;
};

constexpr std::array<Defaults, 9> kDefaults = {{
    {"gpt2", 50257, 768, 0, 12, 12, 0, 0, 1024, 1e-5},
    {"bert", 30522, 768, 3072, 12, 12, 0, 0, 512, 1e-12},
    {"roberta", 50265, 768, 3072, 12, 12, 0, 0, 512, 1e-12},
    {"llama", 32000, 4096, 11008, 32, 32, 0, 0, 2048},
    {"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, 4096},
    {"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6, 4096},
    {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, 4096},
    {"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, 4096, 50, 30},
    {"gemma3", 262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, 4096},
}};

const Defaults& defaults_of(std::string_view architecture) {
  return *std::find_if(kDefaults.begin(), kDefaults.end(),
                       [&](const Defaults& each) { return each.architecture == architecture; });
}

const Architecture& architecture_of_type(const ConfigReader& config) {
  const std::optional<std::string> type = config.text("model_type");
  if (!type) config.refuse("model_type", "is missing; it names the model's architecture");
  std::string known;
  for (const Architecture& each : architectures()) {
    if (each.model_type == *type) return each;
    known += (known.empty() ? "" : ", ") + std::string(each.model_type);
  }
  if (*type == "gemma3") {
    config.refuse("model_type", "\"gemma3\" has an image encoder, which is not built; take a \"gemma3_text\" model");
  }
  config.refuse("model_type", "\"" + *type + "\" is not built; built are " + known);
}

// What would change the model's function, and is not built. Keys that are not there are fine.
void refuse_what_is_not_built(const ConfigReader& config) {
  if (config.has("quantization_config")) {
    config.refuse("quantization_config", "quantized weights cannot be trained; take the model's original weights");
  }
  if (config.has("auto_map")) {
    config.refuse("auto_map", "the model brings Python code of its own, which is not run here");
  }
  for (const char* const key : {"is_encoder_decoder", "is_decoder", "add_cross_attention",
                                "use_bidirectional_attention", "scale_attn_by_inverse_layer_idx"}) {
    if (config.boolean(key).value_or(false)) config.refuse(key, "true is not built");
  }
  if (!config.boolean("scale_attn_weights").value_or(true)) config.refuse("scale_attn_weights", "false is not built");
  const std::string positions = config.text("position_embedding_type").value_or("absolute");
  if (positions != "absolute") config.refuse("position_embedding_type", "\"" + positions + "\" is not built");
  const std::optional<ConfigReader> layers = config.object("per_layer_config");
  if (layers && !layers->empty()) config.refuse("per_layer_config", "layers with keys of their own are not built");
  for (const char* const key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (config.integer(key, 0, kMostSize).value_or(0) > 1) config.refuse(key, "a mixture of experts is not built");
  }
  for (const char* const key : {"attention_dropout", "resid_dropout"}) {
    if (config.real(key, 0, 1).value_or(0) > 0)
      config.refuse(key, "dropout of this architecture is not built; set it to 0");
  }
}

std::string read_activation(const ConfigReader& config, std::string_view key, std::string_view own) {
  const std::optional<std::string> name = config.text(key);
  if (!name) return std::string(own);
  if (*name == "gelu") return "gelu";
  if (*name == "gelu_new" || *name == "gelu_pytorch_tanh") return "gelu_tanh";
  if (*name == "silu" || *name == "swish") return "silu";
  config.refuse(key,
                "the activation \"" + *name + "\" is not built; built are gelu, gelu_new, gelu_pytorch_tanh, silu");
}

// A key whose null means none, which is not the same as a key that is missing.
std::int64_t optional_integer(const ConfigReader& config, std::string_view key, std::int64_t otherwise) {
  return config.is_null(key) ? 0 : config.integer(key, 0, kMostSize).value_or(otherwise);
}
double optional_real(const ConfigReader& config, std::string_view key, double otherwise) {
  return config.is_null(key) ? 0 : config.real(key, 0).value_or(otherwise);
}

// One dropout for all; where they differ, options have no word for it.
void read_dropout(const ConfigReader& config, std::initializer_list<std::string_view> keys, ModelOptions& model) {
  model.dropout = config.real(*keys.begin(), 0, 1).value_or(0.1);
  for (const std::string_view key : keys) {
    const double other = config.real(key, 0, 1).value_or(0.1);
    if (other == model.dropout) continue;
    config.refuse(key, "is another than " + std::string(*keys.begin()) + "; here all are one: make them equal");
  }
}

void read_gpt2(const ConfigReader& config, const Defaults& defaults, ModelOptions& model) {
  const auto size = [&](std::string_view key, std::string_view other, std::int64_t otherwise, std::int64_t most) {
    return config.integer(key, 1, most).value_or(config.integer(other, 1, most).value_or(otherwise));
  };
  model.layers = size("n_layer", "num_hidden_layers", defaults.layers, kMostLayers);
  model.hidden = size("n_embd", "hidden_size", defaults.hidden, kMostSize);
  model.heads = size("n_head", "num_attention_heads", defaults.heads, kMostSize);
  model.positions = size("n_positions", "max_position_embeddings", defaults.positions, kMostSize);
  model.intermediate = optional_integer(config, "n_inner", 0);
  model.norm_epsilon = config.real("layer_norm_epsilon", kLeastEpsilon, 1).value_or(defaults.norm_epsilon);
  model.activation = read_activation(config, "activation_function", "gelu_tanh");
  read_dropout(config, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, model);
}

void read_sizes(const ConfigReader& config, const Defaults& defaults, ModelOptions& model) {
  model.layers = config.integer("num_hidden_layers", 1, kMostLayers).value_or(defaults.layers);
  model.hidden = config.integer("hidden_size", 1, kMostSize).value_or(defaults.hidden);
  model.heads = config.integer("num_attention_heads", 1, kMostSize).value_or(defaults.heads);
  model.intermediate = config.integer("intermediate_size", 1, kMostSize).value_or(defaults.intermediate);
  model.positions = config.integer("max_position_embeddings", 1, kMostSize).value_or(defaults.positions);
}

void read_encoder(const ConfigReader& config, const Defaults& defaults, ModelOptions& model) {
  read_sizes(config, defaults, model);
  model.token_types = config.integer("type_vocab_size", 1, kMostSize).value_or(2);
  model.norm_epsilon = config.real("layer_norm_eps", kLeastEpsilon, 1).value_or(defaults.norm_epsilon);
  model.activation = read_activation(config, "hidden_act", "gelu");
  if (model.architecture == "roberta") {
    model.padding_token = config.integer("pad_token_id", 0, kMostSize).value_or(1);
  }
  read_dropout(config, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, model);
}

// The shortest list that gives `types` when it is repeated.
std::vector<std::string> period_of(std::vector<std::string> types) {
  for (std::size_t period = 1; period < types.size(); ++period) {
    bool repeats = true;
    for (std::size_t i = period; i < types.size() && repeats; ++i) repeats = types[i] == types[i - period];
    if (repeats) types.resize(period);
  }
  return types;
}

// "sliding_attention" where slides(layer).
template <typename Slides>
std::vector<std::string> layer_types(std::int64_t layers, Slides slides) {
  std::vector<std::string> types;
  for (std::int64_t i = 0; i < layers; ++i) types.emplace_back(slides(i) ? kSliding : kFull);
  return types;
}

void read_layer_types(const ConfigReader& config, const Defaults& defaults, ModelOptions& model) {
  const bool qwen = model.architecture == "qwen2" || model.architecture == "qwen3";
  const bool used = !qwen || config.boolean("use_sliding_window").value_or(false);
  if (!used) return;
  model.sliding_window = optional_integer(config, "sliding_window", defaults.sliding_window);
  if (model.sliding_window == 0) return;
  std::vector<std::string> types;
  if (std::optional<std::vector<std::string>> given = config.texts("layer_types")) {
    types = std::move(*given);  // of a mistral model those that the newest transformers reads
    if (static_cast<std::int64_t>(types.size()) != model.layers) {
      config.refuse("layer_types",
                    "has " + std::to_string(types.size()) + " entries for " + std::to_string(model.layers) + " layers");
    }
  } else if (model.architecture == "mistral") {
    types = {std::string(kSliding)};
  } else if (qwen) {
    const std::int64_t first = config.integer("max_window_layers", 0, kMostLayers).value_or(28);
    types = layer_types(model.layers, [&](std::int64_t i) { return i >= first; });
  } else {
    const std::int64_t period = model.architecture == "gemma2"
                                    ? 2  // whatever its config says
                                    : config.integer("sliding_window_pattern", 1, kMostLayers).value_or(6);
    types = layer_types(model.layers, [&](std::int64_t i) { return (i + 1) % period != 0; });
  }
  model.layer_types = period_of(std::move(types));
}

constexpr double kLeastFactor = 1e-6;

double yarn_magnitude(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

void read_yarn(const ConfigReader& rope, ModelOptions& model) {
  model.rope_factor =
      rope.real("factor", kLeastFactor)
          .value_or(static_cast<double>(model.positions) / static_cast<double>(model.rope_original_positions));
  const auto set_or = [&](std::string_view key, double otherwise) {
    const double value = rope.real(key, 0).value_or(0);
    return value > 0 ? value : otherwise;
  };
  model.rope_beta_fast = set_or("beta_fast", 32);
  model.rope_beta_slow = set_or("beta_slow", 1);
  model.rope_truncate = rope.boolean("truncate").value_or(true);
  const double scale = rope.real("mscale", 0).value_or(0), all = rope.real("mscale_all_dim", 0).value_or(0);
  const double own = scale > 0 && all > 0
                         ? yarn_magnitude(model.rope_factor, scale) / yarn_magnitude(model.rope_factor, all)
                         : yarn_magnitude(model.rope_factor, 1);
  model.rope_attention_factor = rope.real("attention_factor", kLeastFactor).value_or(own);
}

double required(const ConfigReader& config, std::string_view key, double least) {
  const std::optional<double> value = config.real(key, least);
  if (!value) config.refuse(key, "is missing");
  return *value;
}

void refuse_partial_rotation(const ConfigReader& config) {
  if (config.real("partial_rotary_factor", 0).value_or(1) != 1) {
    config.refuse("partial_rotary_factor", "heads that are rotated in part are not built");
  }
}

std::string rope_type(const ConfigReader& rope) {
  return rope.text("rope_type").value_or(rope.text("type").value_or("default"));
}

// `rope`: what transformers 4 calls rope_scaling and 5 rope_parameters.
void read_rope_scaling(const ConfigReader& config, const ConfigReader& rope, ModelOptions& model) {
  refuse_partial_rotation(rope);
  const std::string type = rope_type(rope);
  if (type == "default") return;
  if (type != "linear" && type != "dynamic" && type != "llama3" && type != "yarn") {
    rope.refuse("rope_type", "\"" + type + "\" is not built; built are default, linear, dynamic, llama3, yarn");
  }
  model.rope_scaling = type;
  model.rope_original_positions =
      config.integer("original_max_position_embeddings", 1, kMostSize)
          .value_or(rope.integer("original_max_position_embeddings", 1, kMostSize).value_or(model.positions));
  if (type == "yarn") return read_yarn(rope, model);
  model.rope_factor = required(rope, "factor", kLeastFactor);
  if (type != "llama3") model.rope_original_positions = 0;
  if (type != "llama3") return;
  model.rope_low_frequency = required(rope, "low_freq_factor", kLeastFactor);
  model.rope_high_frequency = required(rope, "high_freq_factor", kLeastFactor);
}

// An empty one counts as missing, as in transformers.
std::optional<ConfigReader> old_rope_object(const ConfigReader& config) {
  std::optional<ConfigReader> old = config.object("rope_scaling");
  return old && old->empty() ? std::nullopt : old;
}

std::optional<ConfigReader> rope_object(const ConfigReader& config) {
  std::optional<ConfigReader> old = old_rope_object(config);
  return old ? old : config.object("rope_parameters");
}

constexpr double kLeastTheta = 1 + 1e-6, kMostTheta = 1e12;

void read_rope(const ConfigReader& config, ModelOptions& model) {
  refuse_partial_rotation(config);
  model.rope_theta = config.real("rope_theta", kLeastTheta, kMostTheta).value_or(10000);
  const std::optional<ConfigReader> rope = rope_object(config);
  if (!rope) return;
  if (rope->has(kFull) || rope->has(kSliding)) {
    rope->refuse(kFull, "positions that depend on the layer's type are not built for " + model.architecture);
  }
  model.rope_theta = rope->real("rope_theta", kLeastTheta, kMostTheta).value_or(model.rope_theta);
  read_rope_scaling(config, *rope, model);
}

// Layers of each type have positions of their own.
void read_gemma3_rope(const ConfigReader& config, ModelOptions& model) {
  model.rope_theta = config.real("rope_theta", kLeastTheta, kMostTheta).value_or(1e6);
  model.rope_local_theta = config.real("rope_local_base_freq", kLeastTheta, kMostTheta).value_or(1e4);
  const std::optional<ConfigReader> old = old_rope_object(config);
  const std::optional<ConfigReader> rope = config.object("rope_parameters");
  if (const std::optional<ConfigReader> full = rope ? rope->object(kFull) : std::nullopt) {
    model.rope_theta = full->real("rope_theta", kLeastTheta, kMostTheta).value_or(model.rope_theta);
    if (!old) read_rope_scaling(config, *full, model);
  }
  if (old) {
    model.rope_theta = old->real("rope_theta", kLeastTheta, kMostTheta).value_or(model.rope_theta);
    read_rope_scaling(config, *old, model);
  }
  if (!rope) return;
  if (const std::optional<ConfigReader> sliding = rope->object(kSliding)) {
    model.rope_local_theta = sliding->real("rope_theta", kLeastTheta, kMostTheta).value_or(model.rope_local_theta);
    if (rope_type(*sliding) != "default")
      sliding->refuse("rope_type", "is not \"default\", which is all that is built");
  }
}

void read_decoder(const ConfigReader& config, const Architecture& architecture, const Defaults& defaults,
                  ModelOptions& model) {
  read_sizes(config, defaults, model);
  model.dropout = 0;
  model.kv_heads = optional_integer(config, "num_key_value_heads", defaults.kv_heads);
  model.head_dim = optional_integer(config, "head_dim", defaults.head_dim);
  model.norm_epsilon = config.real("rms_norm_eps", kLeastEpsilon, 1).value_or(defaults.norm_epsilon);
  const char* const activation = architecture.soft_caps ? "hidden_activation" : "hidden_act";
  model.activation = read_activation(config, activation, architecture.activation);
  if (architecture.chooses_bias) model.attention_bias = config.boolean("attention_bias").value_or(false);
  if (architecture.chooses_mlp_bias) model.mlp_bias = config.boolean("mlp_bias").value_or(false);
  if (architecture.slides) read_layer_types(config, defaults, model);
  architecture.local_theta ? read_gemma3_rope(config, model) : read_rope(config, model);
  if (!architecture.soft_caps) return;
  model.attention_softcap = optional_real(config, "attn_logit_softcapping", defaults.attention_softcap);
  if (architecture.name == "gemma3" && model.attention_softcap > 0) {
    config.refuse("attn_logit_softcapping", "transformers computes a gemma3 model without it: set it to null");
  }
  model.logit_softcap = optional_real(config, "final_logit_softcapping", defaults.logit_softcap);
  model.query_scale = config.real("query_pre_attn_scalar", 1e-6).value_or(256);
}

}  // namespace

namespace {

// Those of id2label; none where they say nothing, as transformers' own LABEL_0 does, or are not one for each number.
std::vector<std::string> label_names(const nlohmann::json& classes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto name = classes.find(std::to_string(i));
    if (name == classes.end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return !names.empty() && names[0] == "LABEL_0" ? std::vector<std::string>() : names;
}

// Where transformers' class drops out what the classifier reads.
void check_classifier_dropout(const ConfigReader& config, const ModelOptions& model, bool of_tokens) {
  const bool encoder = architecture_of(model.architecture).encoder;
  if (!encoder && !of_tokens) return;
  const char* const key = encoder || config.has("classifier_dropout") ? "classifier_dropout" : "hidden_dropout";
  if (config.real(key, 0, 1).value_or(model.dropout) == model.dropout) return;
  if (encoder) config.refuse(key, "is another than hidden_dropout_prob; here all are one: set it to null");
  if (model.dropout > 0) config.refuse(key, "is another than resid_pdrop; here all are one: make them equal");
  config.refuse(key, "a head for tokens without dropout is all that is built for this model; set it to 0");
}

// A head for classes, by the name of transformers' class and the names of the classes.
void read_head(const nlohmann::json& json, const ConfigReader& config, ModelOptions& model) {
  const auto names = json.find("architectures");
  if (names == json.end() || !names->is_array() || names->empty() || !names->front().is_string()) return;
  const std::string name = names->front().get<std::string>();
  const bool of_tokens = name.ends_with("ForTokenClassification"), of_choices = name.ends_with("ForMultipleChoice");
  if (!of_tokens && !of_choices && !name.ends_with("ForSequenceClassification")) return;
  check_classifier_dropout(config, model, of_tokens);
  const bool chooses_bias = of_tokens && !architecture_of(model.architecture).learned_positions;
  if (chooses_bias && !config.boolean("token_classification_bias").value_or(true)) {
    config.refuse("token_classification_bias", "false is not built");
  }
  model.head = of_choices ? "choice" : of_tokens ? "tokens" : "classification";
  if (of_choices) return;
  const auto classes = json.find("id2label");
  const bool named = classes != json.end() && classes->is_object();
  const std::int64_t labels =
      named ? static_cast<std::int64_t>(classes->size()) : config.integer("num_labels", 1, kMostLabels).value_or(2);
  if (!of_tokens && config.text("problem_type") == "multi_label_classification") {
    config.refuse(
        "problem_type",
        "several classes for one text are not built; where each has one, set it to \"single_label_classification\"");
  }
  if (!of_tokens && (labels == 1 || config.text("problem_type") == "regression")) {
    if (labels != 1) config.refuse("problem_type", "is \"regression\" of several numbers, which is not built");
    model.head = "regression";
    return;
  }
  if (labels < 2 || labels > kMostLabels) {
    config.refuse("id2label", "names " + std::to_string(labels) + " classes; a head tells at least two apart");
  }
  model.labels = labels;
  if (named) model.label_names = label_names(*classes);
}

}  // namespace

ModelOptions read_hub_config(const std::filesystem::path& file) {
  const nlohmann::json json = read_json_object(file, kMostConfig, "a model's config");
  const ConfigReader config(file, json);
  refuse_what_is_not_built(config);
  const Architecture& architecture = architecture_of_type(config);
  const Defaults& defaults = defaults_of(architecture.name);
  if (!architecture.encoder && !config.boolean("is_causal").value_or(true)) {
    config.refuse("is_causal", "false is not built");
  }
  ModelOptions model;
  model.architecture = architecture.name;
  model.vocabulary = config.integer("vocab_size", 1, kMostSize).value_or(defaults.vocabulary);
  model.tie_embeddings = config.boolean("tie_word_embeddings").value_or(architecture.tied);
  if (architecture.name == "gpt2") {
    read_gpt2(config, defaults, model);
  } else if (architecture.encoder) {
    read_encoder(config, defaults, model);
  } else {
    read_decoder(config, architecture, defaults, model);
  }
  read_head(json, config, model);
  ModelOptions checked = model;
  checked.sequence = 1;
  try {
    check_model(checked);
  } catch (const BadInput& error) {
    throw BadInput(file.string() + ": gives " + error.what());
  }
  return model;
}

}  // namespace l2l::models
