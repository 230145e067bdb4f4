// The visits of layers to the devices of a rank that has a shard of their wires alone (StoreOptions::shard_wire): each
// is gathered from all ranks once, ahead of the devices, which share it. Not synchronised: guarded by the store's
// mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

using VisitId = std::uint64_t;  // counts the visits of a run

class WireVisits {
 public:
  // Total that the constructor allocates: StoreOptions::wire_slots of the largest layer's wire.
  static Bytes bytes(const ModelLayout& layout, const StoreOptions& options);
  WireVisits(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory);

  struct Visit {
    LayerIndex layer = 0;
    Version version = 0;
    int takers = 0;  // devices that have not given it back
    bool started = false, there = false;
  };
  // `device` will take `layers`, one after the other. `devices`: how many do, this one alone or all of this rank; all
  // announce the same. Throws Error where another device has visits left that this one has not.
  void announce(int device, std::span<const LayerIndex> layers, Version version, int devices);
  bool has_announced(int device) const { return taken_[at(device)] < announced_[at(device)]; }
  // Whether the next that the device has announced is here.
  bool is_there(int device) { return has_announced(device) && (*this)[taken_[at(device)]].there; }
  // The next that the device has announced.
  VisitId take(int device) { return taken_[at(device)]++; }
  // The next that is gathered, once there is a slot for it.
  std::optional<VisitId> next() const;
  Visit& operator[](VisitId id) { return visits_[id - first_]; }
  std::byte* slot(VisitId id) const { return slots_[id % slots_.size()]; }
  // The layer as the visit has it, until the last release().
  std::vector<WirePart>& parts(VisitId id) { return parts_[id % slots_.size()]; }
  // A device has given it back; whether it was the last.
  bool release(VisitId id);

 private:
  static std::size_t at(int device) { return static_cast<std::size_t>(device); }

  std::vector<Visit> visits_;               // that were announced and not given back by all
  VisitId first_ = 0;                       // of them
  std::vector<VisitId> announced_, taken_;  // by device: how far it has come
  std::vector<std::byte*> slots_;
  std::vector<std::vector<WirePart>> parts_;  // by slot
};

}  // namespace l2l::eps
