// The state of the store as others see it between steps: for checkpoints, weight files and hashes.
#include <algorithm>
#include <array>
#include <string>

#include "core/hash.h"
#include "eps/store_implementation.h"
#include "l2l/errors.h"

namespace l2l::eps {
namespace {

void check_lengths(const ParameterSpec& parameter, const ParameterStore::ParameterState& state, int moments) {
  const std::size_t elements = static_cast<std::size_t>(parameter.shape.elements());
  const std::size_t second = moments == 2 ? elements : 0;
  if (state.master.size() == elements && state.moment1.size() == elements && state.moment2.size() == second) return;
  throw Error("parameter " + parameter.name + " has " + std::to_string(elements) + " elements, not " +
              std::to_string(state.master.size()) + ", " + std::to_string(state.moment1.size()) + " and " +
              std::to_string(state.moment2.size()));
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

}  // namespace

void ParameterStore::read(GroupIndex group, std::size_t parameter, const ParameterState& state) const {
  const ParameterSpec& spec = layout().groups.at(static_cast<std::size_t>(group)).parameters.at(parameter);
  const GroupMemory& memory = implementation_->groups[static_cast<std::size_t>(group)].memory;
  check_lengths(spec, state, moments());
  const std::size_t count = state.master.size();
  memory.read_master(spec.offset, state.master);
  std::ranges::copy(memory.moment1(spec.offset, count), state.moment1.begin());
  std::ranges::copy(memory.moment2(spec.offset, count), state.moment2.begin());  // of nothing where there is none
}

void ParameterStore::write(GroupIndex group, std::size_t parameter, const ParameterState& state) {
  const ParameterSpec& spec = layout().groups.at(static_cast<std::size_t>(group)).parameters.at(parameter);
  GroupMemory& memory = implementation_->groups[static_cast<std::size_t>(group)].memory;
  check_lengths(spec, state, moments());
  const std::size_t count = state.master.size();
  memory.write_master(spec.offset, state.master);
  std::ranges::copy(state.moment1, memory.moment1(spec.offset, count).begin());
  std::ranges::copy(state.moment2, memory.moment2(spec.offset, count).begin());
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
