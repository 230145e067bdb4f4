#include "models/hub/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/graph.h"
#include "l2l/errors.h"
#include "models/architecture.h"

namespace l2l::models {
namespace {

using formats::GgufMetadata;
using formats::GgufType;

constexpr std::string_view kSlidingType = "sliding_attention";

[[noreturn]] void refuse(const ModelOptions& model, const std::string& what, const std::string& way_out) {
  throw BadInput("gguf: " + what + ", which llama.cpp cannot express for " + model.architecture + "; " + way_out);
}

constexpr const char* kExportDirectory = "export a Hugging Face directory (--format hf)";

// Those that llama.cpp loads under this name.
std::string name_of_architecture(const ModelOptions& model) {
  return model.architecture == "mistral" ? "llama" : model.architecture;
}

bool is_gemma(const ModelOptions& model) { return architecture_of(model.architecture).soft_caps; }

std::uint32_t size(std::int64_t value) { return static_cast<std::uint32_t>(value); }

std::vector<bool> sliding_layers(const ModelOptions& model) {
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    slides.push_back(model.layer_types[static_cast<std::size_t>(i) % model.layer_types.size()] == kSlidingType);
  }
  return slides;
}

bool any_slides(const ModelOptions& model) {
  return std::count(model.layer_types.begin(), model.layer_types.end(), kSlidingType) > 0;
}

void refuse_other_functions(const ModelOptions& model) {
  const Architecture& architecture = architecture_of(model.architecture);
  if (architecture.encoder) {
    throw BadInput("gguf: model.architecture = \"" + model.architecture + "\" continues no text; " + kExportDirectory);
  }
  if (model.head != "language") refuse(model, "model.head = \"" + model.head + "\"", kExportDirectory);
  if (model.reversible != "none") {
    refuse(model, "model.reversible = \"" + model.reversible + "\"", "nothing but this project runs such a model");
  }
  const std::string activation = model.architecture == "gpt2" || is_gemma(model) ? "gelu_tanh" : "silu";
  if (model.activation != activation) {
    refuse(model, "model.activation = \"" + model.activation + "\"", kExportDirectory);
  }
  if (model.attention_bias && model.architecture != "llama") {
    refuse(model, "model.attention_bias = true", kExportDirectory);
  }
  if (model.architecture == "qwen2" && model.heads * model.head_dim != model.hidden) {
    refuse(model, "model.head_dim = " + std::to_string(model.head_dim) + ", not hidden / heads", kExportDirectory);
  }
  if (model.architecture == "gemma2" && !model.tie_embeddings) {
    refuse(model, "model.tie_embeddings = false", kExportDirectory);
  }
}

void refuse_caps_and_scales(const ModelOptions& model) {
  if (!is_gemma(model)) return;
  const bool gemma2 = model.architecture == "gemma2";
  if (gemma2 && (model.attention_softcap == 0 || model.logit_softcap == 0)) {
    refuse(model, "a model without attention_softcap or logit_softcap", kExportDirectory);
  }
  if (!gemma2 && model.attention_softcap > 0) refuse(model, "model.attention_softcap", kExportDirectory);
  // llama.cpp knows the two largest published models by their number of layers.
  const bool by_hidden = model.layers == (gemma2 ? 46 : 62);
  const auto expected = static_cast<double>(by_hidden ? model.hidden / model.heads : model.head_dim);
  if (model.query_scale == expected) return;
  refuse(model, "model.query_scale = " + std::to_string(model.query_scale) + " instead of " + std::to_string(expected),
         kExportDirectory);
}

void add_attention(const ModelOptions& model, const std::string& prefix, GgufMetadata& keys) {
  keys.emplace_back(prefix + "attention.head_count", size(model.heads));
  if (model.architecture == "gpt2") return;
  keys.emplace_back(prefix + "attention.head_count_kv", size(model.kv_heads));
  keys.emplace_back(prefix + "attention.key_length", size(model.head_dim));
  keys.emplace_back(prefix + "attention.value_length", size(model.head_dim));
  keys.emplace_back(prefix + "rope.dimension_count", size(model.head_dim));
  keys.emplace_back(prefix + "rope.freq_base", static_cast<float>(model.rope_theta));
  if (!is_gemma(model)) return;
  const auto add_cap = [&](const char* key, double cap) {
    if (cap > 0) keys.emplace_back(prefix + key, static_cast<float>(cap));
  };
  add_cap("attn_logit_softcapping", model.attention_softcap);
  add_cap("final_logit_softcapping", model.logit_softcap);
  if (!any_slides(model) && model.architecture == "gemma3") return;
  // The loader of Gemma 2 always has a window; a pattern without sliding layers has no use for it.
  keys.emplace_back(prefix + "attention.sliding_window", size(std::max<std::int64_t>(model.sliding_window, 1)));
  keys.emplace_back(prefix + "attention.sliding_window_pattern", sliding_layers(model));
  if (model.architecture == "gemma3") {
    keys.emplace_back(prefix + "rope.freq_base_swa", static_cast<float>(model.rope_local_theta));
  }
}

void check_yarn(const ModelOptions& model) {
  if (model.architecture == "gemma3") refuse(model, "model.rope_scaling = \"yarn\"", kExportDirectory);
  if (model.rope_beta_fast != 32 || model.rope_beta_slow != 1) {
    refuse(model, "a rope_beta_fast other than 32 or a rope_beta_slow other than 1", kExportDirectory);
  }
  if (!model.rope_truncate) refuse(model, "model.rope_truncate = false", kExportDirectory);
}

void add_rope_scaling(const ModelOptions& model, const std::string& prefix, GgufMetadata& keys) {
  const std::string& kind = model.rope_scaling;
  if (kind == "llama3" && name_of_architecture(model) != "llama") {
    refuse(model, "model.rope_scaling = \"llama3\"", kExportDirectory);
  }
  if (kind == "linear" || kind == "yarn") {
    keys.emplace_back(prefix + "rope.scaling.type", kind);
    keys.emplace_back(prefix + "rope.scaling.factor", static_cast<float>(model.rope_factor));
  }
  if (kind != "yarn") return;
  check_yarn(model);
  keys.emplace_back(prefix + "rope.scaling.original_context_length", size(model.rope_original_positions));
  // llama.cpp multiplies it by the factor that is yarn's own.
  const double own = model.rope_factor <= 1 ? 1 : 1 + 0.1 * std::log(model.rope_factor);
  keys.emplace_back(prefix + "rope.scaling.attn_factor", static_cast<float>(model.rope_attention_factor / own));
}

// The longest context over which the file's function is the model's.
std::int64_t context_length(const ModelOptions& model, std::vector<std::string>& remarks) {
  std::int64_t most = model.positions;
  if (!is_gemma(model) && any_slides(model) && model.sliding_window < most) {
    most = model.sliding_window;
    remarks.push_back("llama.cpp has no sliding window for " + model.architecture + ": context_length is the window, " +
                      std::to_string(most) + " tokens, within which nothing slides");
  }
  if (model.rope_scaling == "dynamic") {
    remarks.push_back("llama.cpp has no dynamic rope_scaling: context_length is the original one, " +
                      std::to_string(most) + " tokens, within which nothing is scaled");
  }
  return most;
}

std::uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q8_0:
      return 7;
    case GgufType::bf16:
      return 32;
  }
  return 0;
}

}  // namespace

GgufMetadata gguf_metadata(const ModelOptions& model, GgufType type, std::vector<std::string>& remarks) {
  refuse_other_functions(model);
  refuse_caps_and_scales(model);
  const std::string name = name_of_architecture(model), prefix = name + ".";
  GgufMetadata keys = {{"general.architecture", name},
                       {"general.type", std::string("model")},
                       {"general.file_type", file_type(type)},
                       {"general.quantization_version", std::uint32_t{2}}};
  keys.emplace_back(prefix + "vocab_size", size(model.vocabulary));
  keys.emplace_back(prefix + "block_count", size(model.layers));
  keys.emplace_back(prefix + "context_length", size(context_length(model, remarks)));
  keys.emplace_back(prefix + "embedding_length", size(model.hidden));
  keys.emplace_back(prefix + "feed_forward_length", size(model.intermediate));
  keys.emplace_back(prefix + (name == "gpt2" ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
                    static_cast<float>(model.norm_epsilon));
  add_attention(model, prefix, keys);
  add_rope_scaling(model, prefix, keys);
  return keys;
}

std::vector<float> gguf_frequency_divisors(const ModelOptions& model) {
  if (model.rope_scaling != "llama3") return {};
  compiler::Attributes plain{.rotary_base = static_cast<float>(model.rope_theta)};
  compiler::Attributes scaled = plain;
  scaled.rotary_scaling = {.kind = compiler::RotaryScaling::Kind::llama3,
                           .factor = static_cast<float>(model.rope_factor),
                           .positions = model.rope_original_positions,
                           .low_frequency = static_cast<float>(model.rope_low_frequency),
                           .high_frequency = static_cast<float>(model.rope_high_frequency)};
  const std::int64_t pairs = model.head_dim / 2;
  const std::vector<double> before = compiler::rotary_frequencies(plain, pairs);
  const std::vector<double> behind = compiler::rotary_frequencies(scaled, pairs);
  std::vector<float> divisors;
  for (std::size_t i = 0; i < before.size(); ++i) divisors.push_back(static_cast<float>(before[i] / behind[i]));
  return divisors;
}

}  // namespace l2l::models
