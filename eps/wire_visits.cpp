#include "eps/wire_visits.h"

#include <algorithm>
#include <utility>

#include "l2l/errors.h"

namespace l2l::eps {
namespace {

constexpr std::size_t kPassesAhead = 2;  // that a device may have announced and not taken

Bytes slot_bytes(const ModelLayout& layout, const StoreOptions& options) {
  return static_cast<Bytes>(layout.largest_layer()) * size_of(options.wire);
}

}  // namespace

Bytes WireVisits::bytes(const ModelLayout& layout, const StoreOptions& options) {
  return options.shards_wires() ? static_cast<Bytes>(options.wire_slots) * slot_bytes(layout, options) : 0;
}

WireVisits::WireVisits(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory)
    : announced_(at(options.devices)), taken_(at(options.devices)) {
  if (!options.shards_wires()) return;
  for (int i = 0; i < options.wire_slots; ++i) {
    slots_.push_back(memory.allocate(slot_bytes(layout, options), "a layer's weights from all ranks"));
  }
  parts_.resize(slots_.size());
  visits_.reserve(kPassesAhead * 2 * layout.layers.size());
}

// The first device of a pass adds its visits at the end; the others come to the same ones, which they must agree on. A
// pass of one device alone adds visits that the others pass over: for them they count as announced and taken.
void WireVisits::announce(int device, std::span<const LayerIndex> layers, Version version, int devices) {
  const VisitId end = first_ + visits_.size();
  const VisitId from = std::exchange(announced_[at(device)], announced_[at(device)] + layers.size());
  if (from == end) {
    for (const LayerIndex layer : layers) visits_.push_back({layer, version, devices});
    if (devices > 1) return;
    for (std::size_t other = 0; other < announced_.size(); ++other) {
      if (other == at(device)) continue;
      if (taken_[other] != end) throw Error("a device visits layers alone while another is in a pass");
      announced_[other] = taken_[other] = end + layers.size();
    }
    return;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const VisitId id = from + i;
    if (id >= first_ && id < end && (*this)[id].layer == layers[i] && (*this)[id].version == version) continue;
    throw Error("devices announce different visits");
  }
}

std::optional<VisitId> WireVisits::next() const {
  const auto waits = std::ranges::find_if(visits_, [](const Visit& visit) { return !visit.started; });
  const auto before = static_cast<std::size_t>(waits - visits_.begin());
  if (waits == visits_.end() || before >= slots_.size()) return std::nullopt;
  return first_ + before;
}

bool WireVisits::release(VisitId id) {
  if (--(*this)[id].takers > 0) return false;
  const auto taken = std::ranges::find_if(visits_, [](const Visit& visit) { return visit.takers > 0; });
  first_ += static_cast<VisitId>(taken - visits_.begin());
  visits_.erase(visits_.begin(), taken);
  return true;
}

}  // namespace l2l::eps
