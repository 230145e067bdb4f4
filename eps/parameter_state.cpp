// The state of the store as others see it between steps: for checkpoints, weight files and hashes.
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

void check_length(const ParameterSpec& parameter, std::size_t count) {
  const std::int64_t elements = parameter.shape.elements();
  if (count == static_cast<std::size_t>(elements)) return;
  throw Error("parameter " + parameter.name + " has " + std::to_string(elements) + " elements, not " +
              std::to_string(count));
}

void hash_master(Hash64& hash, const GroupMemory& memory, const ParameterSpec& parameter) {
  std::array<float, kChunk> buffer;
  const std::int64_t elements = parameter.shape.elements();
  for (std::int64_t first = 0; first < elements; first += kChunk) {
    const std::span<float> values(buffer.data(), static_cast<std::size_t>(std::min(kChunk, elements - first)));
    memory.read_master(parameter.offset + first, values);
    hash.update(std::as_bytes(values));
  }
}

// The lengths that the spans of a parameter's whole state must have.
void check_lengths(const ParameterSpec& parameter, const ParameterStore::ParameterState& state, int moments) {
  check_length(parameter, state.master.size());
  check_length(parameter, state.moment1.size());
  if (moments == 2) check_length(parameter, state.moment2.size());
  if (moments == 1 && !state.moment2.empty()) {
    throw Error("parameter " + parameter.name + " has no second moment: the optimizer keeps one");
  }
}

}  // namespace

void ParameterStore::read(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
                          std::span<float> destination) const {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  check_range(spec, first, destination.size());
  const GroupMemory& memory = implementation_->groups[static_cast<std::size_t>(group)].memory;
  const std::int64_t begin = spec.offset + first;
  if (part == StatePart::master) {
    memory.read_master(begin, destination);
  } else if (part == StatePart::moment1) {
    std::ranges::copy(memory.moment1(begin, destination.size()), destination.begin());
  } else {
    std::ranges::copy(memory.moment2(begin, destination.size()), destination.begin());
  }
}

void ParameterStore::write(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first,
                           std::span<const float> source) {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  check_range(spec, first, source.size());
  GroupMemory& memory = implementation_->groups[static_cast<std::size_t>(group)].memory;
  const std::int64_t begin = spec.offset + first;
  if (part == StatePart::master) {
    memory.write_master(begin, source);
  } else if (part == StatePart::moment1) {
    std::ranges::copy(source, memory.moment1(begin, source.size()).begin());
  } else {
    std::ranges::copy(source, memory.moment2(begin, source.size()).begin());
  }
}

RawMoment ParameterStore::raw_moment(GroupIndex group, std::size_t parameter, StatePart moment) const {
  const ParameterSpec& spec = parameter_at(layout(), group, parameter);
  const GroupMemory& memory = implementation_->groups[static_cast<std::size_t>(group)].memory;
  return memory.raw_moment(check_moment(spec, moment, moments()), parameter);
}

void ParameterStore::read(GroupIndex group, std::size_t parameter, const ParameterState& state) const {
  check_lengths(parameter_at(layout(), group, parameter), state, moments());
  read(group, parameter, StatePart::master, 0, state.master);
  read(group, parameter, StatePart::moment1, 0, state.moment1);
  if (moments() == 2) read(group, parameter, StatePart::moment2, 0, state.moment2);
}

void ParameterStore::write(GroupIndex group, std::size_t parameter, const ParameterState& state) {
  check_lengths(parameter_at(layout(), group, parameter), state, moments());
  write(group, parameter, StatePart::master, 0, state.master);
  write(group, parameter, StatePart::moment1, 0, state.moment1);
  if (moments() == 2) write(group, parameter, StatePart::moment2, 0, state.moment2);
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
  const auto guard = self.lock();
  self.hand_over.restore(step);
  for (std::size_t i = 0; i < update_counts.size(); ++i) self.groups[i].updates = update_counts[i];
  self.notify();
}

std::uint64_t ParameterStore::state_hash() const {
  Hash64 hash;
  for (std::size_t i = 0; i < implementation_->groups.size(); ++i) {
    const GroupMemory& memory = implementation_->groups[i].memory;
    for (const ParameterSpec& parameter : layout().groups[i].parameters) {
      const std::size_t count = static_cast<std::size_t>(parameter.shape.elements());
      hash.update(std::as_bytes(std::span(parameter.name)));
      hash_master(hash, memory, parameter);
      hash.update(std::as_bytes(memory.moment1(parameter.offset, count)));
      hash.update(std::as_bytes(memory.moment2(parameter.offset, count)));
    }
  }
  return hash.value();
}

}  // namespace l2l::eps
