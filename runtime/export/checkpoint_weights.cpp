#include "runtime/export/checkpoint_weights.h"

#include <utility>

#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "models/hub/adapter.h"
#include "runtime/options/pretrained.h"

namespace l2l::runtime {
namespace {

std::vector<float> read_all(const formats::ShardedTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.entry->shape.elements()));
  formats::read_floats(tensor, 0, values);
  return values;
}

const std::filesystem::path& base_of(const Options& options) {
  require_base(options.model.base);
  return options.model.base;
}

}  // namespace

CheckpointWeights::CheckpointWeights(const std::filesystem::path& folder, const Options& options,
                                     const ModelLayout& layout)
    : checkpoint_(folder),
      base_(base_of(options), options.model, layout, /*new_head=*/true),
      lora_(models::lora_of(options.lora)),
      without_frozen_(options.lora.rank > 0),
      transposed_(options.model.architecture == "gpt2") {
  if (base_.hash() != eps::read_manifest(folder).state.base_hash) {
    throw BadInput("model.base = \"" + options.model.base.string() + "\": its weights are not those that " +
                   folder.string() + " was trained beside");
  }
  for (const GroupSpec& group : layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (!parameter.name.ends_with(".weight")) continue;
      const std::string module = parameter.name.substr(0, parameter.name.size() - std::string(".weight").size());
      const formats::ShardedTensor a = checkpoint_.find(module + ".lora_A.weight");
      const formats::ShardedTensor b = checkpoint_.find(module + ".lora_B.weight");
      if (a.entry == nullptr || b.entry == nullptr) continue;
      adapters_[parameter.name] = {read_all(a), read_all(b), a.entry->shape[0], a.entry->shape[1], b.entry->shape[0]};
    }
  }
}

bool CheckpointWeights::read(const ParameterSpec& parameter, std::int64_t first, std::span<float> destination) const {
  const formats::ShardedTensor saved = checkpoint_.find(parameter.name);
  if (saved.entry != nullptr && (without_frozen_ || parameter.trained)) {
    formats::read_floats(saved, first, destination);
  } else if (!base_.read(parameter, first, destination)) {
    return false;
  }
  const auto adapter = adapters_.find(parameter.name);
  if (adapter == adapters_.end()) return true;
  const auto& [a, b, rank, in, out] = adapter->second;
  const std::int64_t columns = transposed_ ? out : in;
  for (std::size_t i = 0; i < destination.size(); ++i) {
    std::int64_t row = (first + static_cast<std::int64_t>(i)) / columns,
                 column = (first + static_cast<std::int64_t>(i)) % columns;
    if (transposed_) std::swap(row, column);
    float sum = 0;
    for (std::int64_t k = 0; k < rank; ++k) {
      sum += b[static_cast<std::size_t>(row * rank + k)] * a[static_cast<std::size_t>(k * in + column)];
    }
    destination[i] += lora_.factor() * sum;
  }
  return true;
}

}  // namespace l2l::runtime
