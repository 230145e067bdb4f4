#include "eps/checkpoint/tensor_list.h"

#include <algorithm>

#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/moment_tensors.h"

namespace l2l::eps {
namespace {

// The tensors that hold one part of a parameter.
void add_tensors(std::vector<formats::TensorToWrite>& tensors, const ParameterSpec& parameter, StatePart part,
                 const StateTypes& types) {
  if (!has_part(parameter, part)) return;
  const std::string name = tensor_name(parameter.name, part);
  if (part == StatePart::master) {
    return tensors.push_back({name, parameter.shape, master_dtype(parameter, types.wire)});
  }
  const optimizers::MomentFormat format = part == StatePart::moment1 ? types.moments.first : types.moments.second;
  tensors.push_back({name, parameter.shape, moment_dtype(format)});
  if (format != optimizers::MomentFormat::int8) return;
  tensors.push_back({scales_name(name), scales_shape(parameter.shape), "BF16"});
}

}  // namespace

StateTypes state_types(const ParameterStore& store) {
  return {store.wire_type(), store.moment_formats(), store.moments()};
}

StateTypes state_types(const StoreOptions& options) {
  return {options.wire, options.moments, optimizers::moments_of(options.optimizer)};
}

const std::map<std::string, std::string>& checkpoint_metadata() {
  static const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};
  return kMetadata;
}

TensorList::TensorList(const ModelLayout& layout, const StateTypes& types, std::span<const StatePart> parts,
                       bool without_frozen, const WriterShare& share) {
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    first.push_back(tensors.size());
    if (!share.has(group)) continue;
    for (const ParameterSpec& parameter : layout.groups[group].parameters) {
      if (without_frozen && !parameter.trained) continue;
      for (const StatePart part : parts) add_tensors(tensors, parameter, part, types);
    }
  }
}

CheckpointSize checkpoint_size(const ModelLayout& layout, const StateTypes& types, bool without_frozen,
                               std::span<const int> writers, int ranks) {
  CheckpointSize size;
  const auto bytes = [&](std::span<const StatePart> parts, int rank) {
    const TensorList list(layout, types, parts, without_frozen, {rank, writers});
    const Bytes of_file = formats::safetensors_bytes(list.tensors, checkpoint_metadata());
    size.largest = std::max(size.largest, of_file);
    return of_file;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    size.model += bytes(kModelParts, rank);
    size.optimizer += bytes(optimizer_parts(types.moment_count), rank);
  }
  return size;
}

}  // namespace l2l::eps
