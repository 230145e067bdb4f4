#include "runtime/export/adapter.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/files.h"
#include "eps/checkpoint/checkpoint.h"
#include "formats/safetensors_shards.h"
#include "formats/safetensors_writer.h"
#include "l2l/errors.h"
#include "models/hub/adapter.h"
#include "models/hub/names.h"
#include "models/make_model.h"
#include "runtime/hub_companions.h"

namespace l2l::runtime {
namespace {

// The module, as PEFT saves modules that are trained as a whole, that a parameter beside the adapters is part of.
std::string saved_module(const models::Architecture& architecture, const std::string& parameter) {
  const std::string name = models::hub_name(architecture, parameter);
  if (parameter.starts_with("bert.pooler.")) return "pooler";
  return models::belongs_to_head(parameter) ? name.substr(0, name.find('.')) : name.substr(0, name.rfind('.'));
}

}  // namespace

const char* name_in_file(DType dtype) { return dtype == DType::f32 ? "F32" : dtype == DType::bf16 ? "BF16" : "F16"; }

std::span<const std::byte> narrow(const ParameterSpec& parameter, DType dtype, std::span<const float> values,
                                  std::span<std::byte> bytes) {
  if (dtype == DType::f32) return std::as_bytes(values);
  auto* const halves = reinterpret_cast<std::uint16_t*>(bytes.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    halves[i] = dtype == DType::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    if (dtype == DType::bf16 || std::isfinite(to_float(f16{halves[i]}))) continue;
    throw BadInput(parameter.name + " has the weight " + std::to_string(values[i]) +
                   ", beyond the range of fp16; export bf16 or fp32");
  }
  return bytes.first(values.size() * sizeof(std::uint16_t));
}

void write_adapter(const std::filesystem::path& folder, const Options& options, DType dtype,
                   const std::filesystem::path& target) {
  const models::Architecture& architecture = models::architecture_of(options.model.architecture);
  const models::Model model =
      models::make_model(options.model, {.train = options.optimizer.train, .lora = models::lora_of(options.lora)});
  const formats::SafetensorsShards checkpoint(folder);
  std::vector<const ParameterSpec*> parameters;
  std::vector<formats::TensorToWrite> tensors;
  std::vector<std::string> saved;
  for (const GroupSpec& group : model.layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (!parameter.trained) continue;
      if (checkpoint.find(parameter.name).entry == nullptr) {
        throw CorruptFile(folder.string(), "tensor " + parameter.name, "is missing");
      }
      parameters.push_back(&parameter);
      tensors.push_back({models::name_in_adapter(architecture, parameter.name), parameter.shape, name_in_file(dtype)});
      if (!models::is_adapter(parameter.name)) saved.push_back(saved_module(architecture, parameter.name));
    }
  }
  std::sort(saved.begin(), saved.end());
  saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
  formats::SafetensorsWriter writer(target / models::kAdapterModel, tensors, {{"format", "pt"}});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(parameters[i]->shape.elements()));
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    formats::read_floats(checkpoint.find(parameters[i]->name), 0, values);
    writer.write(i, 0, narrow(*parameters[i], dtype, values, bytes));
  }
  writer.finish();
  eps::Companions companions = hub_companions(options.model, options.model.base);
  companions.texts = {
      {models::kAdapterConfig, models::adapter_config(options.lora, options.model, options.model.base, saved)}};
  companions.copies.erase("generation_config.json");
  eps::write_companions(target, companions);
  sync_folder(target);
}

}  // namespace l2l::runtime
