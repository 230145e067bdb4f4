#include "eps/checkpoint/tensor_list.h"

#include <algorithm>
#include <utility>

#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/moment_tensors.h"

namespace l2l::eps {
namespace {

optimizers::MomentFormat format_of(StatePart moment, const StateTypes& types) {
  return moment == StatePart::moment1 ? types.moments.first : types.moments.second;
}

// How many tensors each_tensor() gives.
std::size_t count_tensors(const ParameterSpec& parameter, StatePart part, const StateTypes& types) {
  if (!has_part(parameter, part)) return 0;
  return part != StatePart::master && format_of(part, types) == optimizers::MomentFormat::int8 ? 2 : 1;
}

// Calls `add` with each tensor that holds one part of a parameter.
template <typename Add>
void each_tensor(const ParameterSpec& parameter, StatePart part, const StateTypes& types, const Add& add) {
  if (!has_part(parameter, part)) return;
  const std::string name = tensor_name(parameter.name, part);
  if (part == StatePart::master) return add({name, parameter.shape, master_dtype(parameter, types.wire)});
  const optimizers::MomentFormat format = format_of(part, types);
  add({name, parameter.shape, moment_dtype(format)});
  if (format != optimizers::MomentFormat::int8) return;
  add({scales_name(name), scales_shape(parameter.shape), "BF16"});
}

std::size_t count_tensors(const GroupSpec& group, const StateTypes& types, std::span<const StatePart> parts,
                          bool without_frozen) {
  std::size_t count = 0;
  for (const ParameterSpec& parameter : group.parameters) {
    if (without_frozen && !parameter.trained) continue;
    for (const StatePart part : parts) count += count_tensors(parameter, part, types);
  }
  return count;
}

// Calls `add` with those that hold `parts` of every parameter of a group.
template <typename Add>
void each_tensor(const GroupSpec& group, const StateTypes& types, std::span<const StatePart> parts, bool without_frozen,
                 const Add& add) {
  for (const ParameterSpec& parameter : group.parameters) {
    if (without_frozen && !parameter.trained) continue;
    for (const StatePart part : parts) each_tensor(parameter, part, types, add);
  }
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
  std::size_t count = 0;
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    if (share.has(group)) count += count_tensors(layout.groups[group], types, parts, without_frozen);
  }
  tensors.reserve(count);
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    first.push_back(tensors.size());
    if (!share.has(group)) continue;
    each_tensor(layout.groups[group], types, parts, without_frozen,
                [&](formats::TensorToWrite tensor) { tensors.push_back(std::move(tensor)); });
  }
}

std::size_t checkpoint_tensors(const ModelLayout& layout, const StateTypes& types, bool without_frozen) {
  std::size_t count = 0;
  for (const GroupSpec& group : layout.groups) {
    count += count_tensors(group, types, kModelParts, without_frozen) +
             count_tensors(group, types, optimizer_parts(types.moment_count), without_frozen);
  }
  return count;
}

CheckpointSize checkpoint_size(const ModelLayout& layout, const StateTypes& types, bool without_frozen,
                               std::span<const int> writers, int ranks) {
  CheckpointSize size;
  const auto bytes = [&](std::span<const StatePart> parts, int rank) {
    const WriterShare share{rank, writers};
    formats::SafetensorsSize file(checkpoint_metadata());
    for (std::size_t group = 0; group < layout.groups.size(); ++group) {
      if (!share.has(group)) continue;
      each_tensor(layout.groups[group], types, parts, without_frozen,
                  [&](const formats::TensorToWrite& tensor) { file.add(tensor); });
    }
    size.largest = std::max(size.largest, file.bytes());
    return file.bytes();
  };
  for (int rank = 0; rank < ranks; ++rank) {
    size.model += bytes(kModelParts, rank);
    size.optimizer += bytes(optimizer_parts(types.moment_count), rank);
  }
  return size;
}

}  // namespace l2l::eps
