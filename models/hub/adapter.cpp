#include "models/hub/adapter.h"

#include <algorithm>
#include <regex>

#include "base/json.h"
#include "models/hub/config_reader.h"
#include "models/hub/names.h"

namespace l2l::models {
namespace {

constexpr Bytes kMostAdapterBytes = 16 * kMiB;

// Refuses a key that asks for what is not built, unless it is missing, null, false or empty.
void refuse_unless_empty(const ConfigReader& config, const nlohmann::json& object, const char* key, const char* what) {
  const auto place = object.find(key);
  if (place == object.end() || place->is_null() || *place == false || (place->is_structured() && place->empty()))
    return;
  config.refuse(key, std::string(what) + "; such adapters cannot be trained here");
}

// Of whole names, "model.layers.3.self_attn.q_proj", the part behind the block's number; each once.
std::vector<std::string> without_blocks(const std::vector<std::string>& modules) {
  std::vector<std::string> targets;
  for (const std::string& module : modules) {
    static const std::regex kBlock(R"(.*\.[0-9]+\.(.+))");
    std::smatch parts;
    const std::string target = std::regex_match(module, parts, kBlock) ? parts[1].str() : module;
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
  }
  return targets;
}

// PEFT has none for masked language models and for multiple choice.
nlohmann::ordered_json task_type(const std::string& head, const Architecture& architecture) {
  if (head == "classification" || head == "regression") return "SEQ_CLS";
  if (head == "tokens") return "TOKEN_CLS";
  if (head == "choice" || architecture.encoder) return nullptr;
  return "CAUSAL_LM";
}

}  // namespace

Lora lora_of(const LoraOptions& options) {
  return {options.rank, static_cast<float>(options.alpha), static_cast<float>(options.dropout), options.rank_stabilized,
          options.targets};
}

LoraOptions read_adapter_config(const std::filesystem::path& file) {
  const nlohmann::json object = read_json_object(file, kMostAdapterBytes, "the configuration of an adapter");
  const ConfigReader config(file, object);
  if (config.text("peft_type").value_or("LORA") != "LORA") config.refuse("peft_type", "is not LORA");
  if (config.text("bias").value_or("none") != "none") config.refuse("bias", "is not \"none\"");
  constexpr std::pair<const char*, const char*> kNotBuilt[] = {
      {"use_dora", "asks for DoRA"},
      {"use_qalora", "asks for QA-LoRA"},
      {"lora_bias", "asks for a bias of adapters"},
      {"rank_pattern", "gives modules ranks of their own"},
      {"alpha_pattern", "gives modules an alpha of their own"},
      {"layers_to_transform", "adapts some layers alone"},
      {"layer_replication", "repeats layers"},
      {"exclude_modules", "leaves modules out"},
      {"target_parameters", "adapts parameters that are no linear layers"},
      {"trainable_token_indices", "trains rows of the embedding"},
      {"alora_invocation_tokens", "asks for activated LoRA"},
  };
  for (const auto& [key, what] : kNotBuilt) refuse_unless_empty(config, object, key, what);
  if (const auto initial = object.find("init_lora_weights"); initial != object.end() && initial->is_string()) {
    constexpr std::string_view kLeaveBase[] = {"gaussian", "eva", "orthogonal"};
    if (std::ranges::find(kLeaveBase, initial->get_ref<const std::string&>()) == std::end(kLeaveBase)) {
      config.refuse("init_lora_weights",
                    "is " + json_text(*initial) +
                        ", which takes a part of the base model's weights into the adapter; save it by "
                        "PEFT's save_pretrained(..., path_initial_model_for_weight_conversion=...)");
    }
  }
  LoraOptions lora;
  lora.rank = config.integer("r", 1, 1 << 16).value_or(8);
  lora.alpha = config.real("lora_alpha", 1e-6).value_or(8);
  lora.dropout = config.real("lora_dropout", 0, 1).value_or(0);
  lora.rank_stabilized = config.boolean("use_rslora").value_or(false);
  const auto targets = object.find("target_modules");
  if (targets != object.end() && targets->is_string()) {
    if (*targets != "all-linear") config.refuse("target_modules", "is a regular expression; a list of names is read");
    lora.targets = {"all-linear"};
  } else {
    lora.targets = without_blocks(config.texts("target_modules").value_or(std::vector<std::string>()));
  }
  return lora;
}

std::string adapter_config(const LoraOptions& lora, const ModelOptions& model, const std::filesystem::path& base,
                           const std::vector<std::string>& saved) {
  const Architecture& architecture = architecture_of(model.architecture);
  nlohmann::ordered_json config;
  config["peft_type"] = "LORA";
  config["task_type"] = task_type(model.head, architecture);
  config["base_model_name_or_path"] = base.string();
  config["r"] = lora.rank;
  config["lora_alpha"] = lora.alpha;
  config["lora_dropout"] = lora.dropout;
  if (lora.targets == std::vector<std::string>{"all-linear"}) {
    config["target_modules"] = "all-linear";
  } else {
    config["target_modules"] = lora.targets;
  }
  config["use_rslora"] = lora.rank_stabilized;
  config["bias"] = "none";
  config["fan_in_fan_out"] = architecture.name == "gpt2";
  config["inference_mode"] = true;
  config["init_lora_weights"] = true;
  config["modules_to_save"] = saved.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(saved);
  return json_text(config, 2) + "\n";
}

std::string name_in_adapter(const Architecture& architecture, const std::string& parameter) {
  return "base_model.model." + hub_name(architecture, parameter);
}

}  // namespace l2l::models
