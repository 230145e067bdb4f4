// hub_config(): the config.json of a model.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "models/architecture.h"
#include "models/hub/config.h"

namespace l2l::models {
namespace {

using Json = nlohmann::json;

// transformers' class.
std::string class_of(const ModelOptions& model) {
  const std::string& name = model.architecture;
  const std::string base = name == "gpt2"      ? "GPT2"
                           : name == "bert"    ? "Bert"
                           : name == "roberta" ? "Roberta"
                           : name == "llama"   ? "Llama"
                           : name == "mistral" ? "Mistral"
                           : name == "qwen2"   ? "Qwen2"
                           : name == "qwen3"   ? "Qwen3"
                           : name == "gemma2"  ? "Gemma2"
                                               : "Gemma3";
  if (model.head == "tokens") return base + "ForTokenClassification";
  if (model.head == "choice") return base + "ForMultipleChoice";
  if (model.head != "language") return base + (name == "gemma3" ? "Text" : "") + "ForSequenceClassification";
  if (architecture_of(name).encoder) return base + "ForMaskedLM";
  return base + (name == "gpt2" ? "LMHeadModel" : "ForCausalLM");
}

// Of several names of one activation the original's: transformers compute them in different ways.
std::string activation_of(const ModelOptions& model, const Json& original) {
  if (model.activation != "gelu_tanh") return model.activation == "silu" ? "silu" : "gelu";
  for (const char* const key : {"activation_function", "hidden_act", "hidden_activation"}) {
    const auto name = original.is_object() ? original.find(key) : original.end();
    if (name != original.end() && (*name == "gelu_new" || *name == "gelu_pytorch_tanh")) return *name;
  }
  return model.architecture == "gpt2" ? "gelu_new" : "gelu_pytorch_tanh";
}

Json number_or_null(double value) { return value > 0 ? Json(value) : Json(); }

void add_gpt2(Json& json, const ModelOptions& model, const std::string& activation) {
  json["n_layer"] = model.layers;
  json["n_embd"] = model.hidden;
  json["n_head"] = model.heads;
  json["n_positions"] = model.positions;
  json["n_inner"] = model.intermediate == 4 * model.hidden ? Json() : Json(model.intermediate);
  json["layer_norm_epsilon"] = model.norm_epsilon;
  json["activation_function"] = activation;
  for (const char* const key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = model.dropout;
}

void add_sizes(Json& json, const ModelOptions& model) {
  json["num_hidden_layers"] = model.layers;
  json["hidden_size"] = model.hidden;
  json["num_attention_heads"] = model.heads;
  json["intermediate_size"] = model.intermediate;
  json["max_position_embeddings"] = model.positions;
}

void add_encoder(Json& json, const ModelOptions& model, const std::string& activation) {
  add_sizes(json, model);
  json["layer_norm_eps"] = model.norm_epsilon;
  json["hidden_act"] = activation;
  json["type_vocab_size"] = model.token_types;
  for (const char* const key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) json[key] = model.dropout;
  if (model.architecture == "roberta") json["pad_token_id"] = model.padding_token;
}

Json rope_scaling(const ModelOptions& model) {
  if (model.rope_scaling == "none") return {};
  Json rope = {{"rope_type", model.rope_scaling}, {"factor", model.rope_factor}};
  if (model.rope_scaling == "llama3" || model.rope_scaling == "yarn") {
    rope["original_max_position_embeddings"] = model.rope_original_positions;
  }
  if (model.rope_scaling == "llama3") {
    rope["low_freq_factor"] = model.rope_low_frequency;
    rope["high_freq_factor"] = model.rope_high_frequency;
  }
  if (model.rope_scaling == "yarn") {
    rope["beta_fast"] = model.rope_beta_fast;
    rope["beta_slow"] = model.rope_beta_slow;
    rope["attention_factor"] = model.rope_attention_factor;
    rope["truncate"] = model.rope_truncate;
  }
  return rope;
}

void add_layer_types(Json& json, const ModelOptions& model) {
  json["sliding_window"] = model.sliding_window > 0 ? Json(model.sliding_window) : Json();
  const auto slides = [](const std::string& type) { return type == "sliding_attention"; };
  if (model.architecture == "mistral" && std::ranges::all_of(model.layer_types, slides))
    return;  // as it does by itself
  if (model.architecture.starts_with("qwen")) json["use_sliding_window"] = model.sliding_window > 0;
  Json types = Json::array();
  for (std::int64_t i = 0; i < model.layers; ++i) {
    types.push_back(model.layer_types[static_cast<std::size_t>(i) % model.layer_types.size()]);
  }
  json["layer_types"] = std::move(types);
}

void add_decoder(Json& json, const ModelOptions& model, const Architecture& architecture,
                 const std::string& activation) {
  add_sizes(json, model);
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["rms_norm_eps"] = model.norm_epsilon;
  json[architecture.soft_caps ? "hidden_activation" : "hidden_act"] = activation;
  if (architecture.chooses_bias) json["attention_bias"] = model.attention_bias;
  if (architecture.chooses_mlp_bias) json["mlp_bias"] = model.mlp_bias;
  if (architecture.slides) add_layer_types(json, model);
  // The spelling of transformers 4, which 5 reads as well.
  json["rope_theta"] = model.rope_theta;
  json["rope_scaling"] = rope_scaling(model);
  if (architecture.local_theta) json["rope_local_base_freq"] = model.rope_local_theta;
  if (!architecture.soft_caps) return;
  json["attn_logit_softcapping"] = number_or_null(model.attention_softcap);
  json["final_logit_softcapping"] = number_or_null(model.logit_softcap);
  // An integer where it is one: transformers 5 refuses others.
  const auto scale = static_cast<std::int64_t>(model.query_scale);
  json["query_pre_attn_scalar"] =
      static_cast<double>(scale) == model.query_scale ? Json(scale) : Json(model.query_scale);
}

void add_labels(Json& json, const ModelOptions& model) {
  const bool regression = model.head == "regression";
  if (model.head != "tokens") json["problem_type"] = regression ? "regression" : "single_label_classification";
  json["id2label"] = json["label2id"] = Json::object();
  for (std::int64_t i = 0; i < (regression ? 1 : model.labels); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string name = model.label_names.empty() ? "LABEL_" + std::to_string(i) : model.label_names[at];
    json["id2label"][std::to_string(i)] = name;
    json["label2id"][name] = i;
  }
}

// All keys that a model of this architecture has.
Json keys_of(const ModelOptions& model, const std::string& activation) {
  const Architecture& architecture = architecture_of(model.architecture);
  Json json;
  json["architectures"] = {class_of(model)};
  json["model_type"] = architecture.model_type;
  json["torch_dtype"] = "float32";
  json["vocab_size"] = model.vocabulary;
  json["tie_word_embeddings"] = model.tie_embeddings;
  if (model.head != "language" && model.head != "choice") add_labels(json, model);
  // Where transformers' class reads it.
  if (model.head == "tokens" || (architecture.encoder && model.head != "language")) {
    json["classifier_dropout"] = model.dropout;
  }
  if (model.architecture == "gpt2") {
    add_gpt2(json, model, activation);
  } else if (architecture.encoder) {
    add_encoder(json, model, activation);
  } else {
    add_decoder(json, model, architecture, activation);
  }
  return json;
}

// Removes what the original config says of the model: the keys of all architectures, and what read_hub_config() reads
// besides.
void erase_own_keys(Json& original) {
  for (const Architecture& each : architectures()) {
    ModelOptions model;
    model.architecture = each.name;
    const Json own = keys_of(with_defaults(model), "");
    for (const auto& [key, value] : own.items()) {
      if (key != "pad_token_id") original.erase(key);
    }
  }
  for (const char* const key :
       {"dtype", "n_ctx", "num_labels", "max_window_layers", "sliding_window_pattern", "rope_parameters",
        "original_max_position_embeddings", "partial_rotary_factor", "token_classification_bias"}) {
    original.erase(key);
  }
}

}  // namespace

std::string hub_config(const ModelOptions& options, std::string_view original) {
  const ModelOptions model = with_defaults(options);
  Json json = parse_json(original);
  if (!json.is_object()) {
    // The classes' own special tokens would be those of another tokenizer.
    json = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  }
  Json own = keys_of(model, activation_of(model, json));
  const auto classes = json.find("id2label");
  const bool theirs = model.label_names.empty() && own.contains("id2label");
  if (theirs && classes != json.end() && classes->size() == own["id2label"].size()) {  // their own names
    own.erase("id2label");
    own.erase("label2id");
  }
  erase_own_keys(json);
  json.update(own);
  return json_text(json, 2) + "\n";
}

}  // namespace l2l::models
