// Adapters in the files of PEFT, the library of Hugging Face: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "l2l/options.h"
#include "models/architecture.h"
#include "models/shape.h"

namespace l2l::models {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterModel = "adapter_model.safetensors";

Lora lora_of(const LoraOptions& options);

// What an adapter_config.json says. Throws BadInput naming file and key, also where it asks for what is not built:
// other methods than LoRA, DoRA, biases, ranks that differ, adapters of some layers alone.
LoraOptions read_adapter_config(const std::filesystem::path& file);
// The text of such a file. `targets` are set. `saved`: modules beside the adapters that are trained as a whole.
std::string adapter_config(const LoraOptions& lora, const ModelOptions& model, const std::filesystem::path& base,
                           const std::vector<std::string>& saved);

// The name of a parameter in adapter_model.safetensors.
std::string name_in_adapter(const Architecture& architecture, const std::string& parameter);

}  // namespace l2l::models
