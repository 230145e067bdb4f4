// Access to the state between steps: for checkpoints, weight files and hashes.
#include <algorithm>
#include <array>
#include <string>

#include "core/hash.h"
#include "eps/store_implementation.h"
#include "l2l/errors.h"

namespace l2l::eps {
namespace {

const ParameterSpec& parameter_at(const ModelLayout& layout, GroupIndex group, std::size_t parameter) {
  return layout.groups.at(static_cast<std::size_t>(group)).parameters.at(parameter);
}

void check_range(const ParameterSpec& parameter, std::int64_t first, std::size_t count) {
  const std::int64_t elements = parameter.shape.elements();
  if (first >= 0 && first <= elements && count <= static_cast<std::size_t>(elements - first)) return;
  throw Error("parameter " + parameter.name + " has " + std::to_string(elements) + " elements; " +
              std::to_string(count) + " from " + std::to_string(first) + " on are asked for");
}

// Hashes a parameter's elements, which read(first, values) reads.
template <typename Read>
void hash_part(Hash64& hash, std::int64_t elements, const Read& read) {
  std::array<float, kChunk> buffer;
  for (std::int64_t first = 0; first < elements; first += kChunk) {
    const std::span<float> values(buffer.data(), static_cast<std::size_t>(std::min(kChunk, elements - first)));
    read(first, values);
    hash.update(std::as_bytes(values));
  }
}

// Index of the moment `part`: 0 or 1.
int check_moment(const ParameterSpec& parameter, StatePart part, int moments) {
  if (!parameter.trained) throw Error("parameter " + parameter.name + " is frozen and has no moments");
  if (part == StatePart::moment1) return 0;
  if (moments == 2) return 1;
  throw Error("parameter " + parameter.name + " has no second moment: the optimizer keeps one");
}

}  // namespace

std::pair<std::int64_t, std::int64_t> ParameterStore::owned(GroupIndex group, std::size_t parameter) const {
  parameter_at(layout(), group, parameter);
  return implementation_->groups[static_cast<std::size_t>(group)].memory.owned(parameter);
}

void ParameterStore::read(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
                          std::span<float> destination) const {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  check_range(spec, first, destination.size());
  const GroupMemory& memory = implementation_->memory_of(group);
  if (part == StatePart::master) {
    memory.read_master(parameter, first, destination);
  } else {
    memory.read_moment(check_moment(spec, part, moments()), parameter, first, destination);
  }
}

void ParameterStore::write(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
                           std::span<const float> source) {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  check_range(spec, first, source.size());
  GroupMemory& memory = implementation_->groups[static_cast<std::size_t>(group)].memory;
  if (part == StatePart::master) {
    memory.write_master(parameter, first, source);
  } else {
    memory.write_moment(check_moment(spec, part, moments()), parameter, first, source);
  }
  memory.seal(parameter, first, static_cast<std::int64_t>(source.size()));
}

std::span<const std::byte> ParameterStore::wire(GroupIndex group, std::size_t parameter) const {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  const Bytes size = size_of(wire_type());
  return implementation_->memory_of(group).wire().subspan(static_cast<Bytes>(spec.offset) * size,
                                                          static_cast<Bytes>(spec.shape.elements()) * size);
}

RawMoment ParameterStore::raw_moment(GroupIndex group, std::size_t parameter, StatePart moment) const {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  const GroupMemory& memory = implementation_->memory_of(group);
  return memory.raw_moment(check_moment(spec, moment, moments()), parameter);
}

std::uint64_t ParameterStore::update_count(GroupIndex group) const {
  const auto guard = implementation_->lock();
  return implementation_->groups.at(static_cast<std::size_t>(group)).updates;
}

void ParameterStore::restore(std::uint64_t step, std::span<const std::uint64_t> update_counts) {
  Implementation& self = *implementation_;
  if (update_counts.size() != self.groups.size()) {
    throw Error(std::to_string(update_counts.size()) + " update counts for " + std::to_string(self.groups.size()) +
                " parameter groups");
  }
  // Without the lock, which the courier needs for its pulse: nothing else uses the state of a store that is restored.
  for (Implementation::GroupData& group : self.groups) group.memory.seal();
  auto guard = self.lock();
  self.hand_over.restore(step);
  for (std::size_t i = 0; i < update_counts.size(); ++i) self.groups[i].updates = update_counts[i];
  self.unlock_and_notify(std::move(guard));
}

void ParameterStore::check_state(GroupIndex group) const {
  try {
    implementation_->groups.at(static_cast<std::size_t>(group)).memory.check();
  } catch (const StateMismatch& found) {
    implementation_->throw_corrupt(group, found);
  }
}

void ParameterStore::Implementation::throw_corrupt(GroupIndex index, const StateMismatch& found) const {
  const bool split = optimizers::master_format(options.wire) == optimizers::MasterFormat::split;
  const bool same = optimizers::master_format(options.wire) == optimizers::MasterFormat::f32;
  const char* const names[kStateArrays] = {same    ? "master"
                                           : split ? "wire (the upper halves of its master)"
                                                   : "wire",
                                           split ? "lower halves of its master" : "master", "first moment",
                                           "second moment"};
  const GroupSpec& group = layout.groups[static_cast<std::size_t>(index)];
  Version step;
  {
    const auto guard = lock();
    step = hand_over.step() + (hand_over.open() ? 1 : 0);
  }
  throw CorruptState("step " + std::to_string(step) + ": group " + group.name + ": the " +
                     names[static_cast<std::size_t>(found.array)] + " of " + group.parameters[found.parameter].name +
                     ", elements " + std::to_string(found.first) + " to " + std::to_string(found.end - 1) +
                     ", is not what was last written there: most likely host memory is bad, or something else wrote "
                     "there; nothing of it was saved. Test this machine's memory");
}

void ParameterStore::add_to_hash(GroupIndex group, Hash64& hash) const {
  const GroupMemory& memory = implementation_->memory_of(group);
  const std::vector<ParameterSpec>& parameters = layout().groups[static_cast<std::size_t>(group)].parameters;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::int64_t elements = parameters[k].shape.elements();
    hash.update(std::as_bytes(std::span(parameters[k].name)));
    hash_part(hash, elements,
              [&](std::int64_t first, std::span<float> values) { memory.read_master(k, first, values); });
    for (int moment = 0; moment < moments() && parameters[k].trained; ++moment) {
      hash_part(hash, elements,
                [&](std::int64_t first, std::span<float> values) { memory.read_moment(moment, k, first, values); });
    }
  }
}

std::uint64_t ParameterStore::state_hash() const {
  Hash64 hash;
  for (std::size_t i = 0; i < implementation_->groups.size(); ++i) {
    check_state(static_cast<GroupIndex>(i));
    add_to_hash(static_cast<GroupIndex>(i), hash);
  }
  return hash.value();
}

}  // namespace l2l::eps
