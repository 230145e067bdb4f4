// Memory for gradients between a device's copy and the update. Not synchronised: guarded by the store's mutex.
#pragma once

#include <optional>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Held: each layer has a slot per device. Eager: slots of the largest layer, staging_slots of them and, for every tied
// group, one per device and further use, since its first contributions wait for the last ones. Each device has an equal
// share of its own: what a fast one has pushed waits for the others, and may not leave them without room.
class GradientSlots {
 public:
  // Sum of what the constructor asks of its memory source.
  static Bytes bytes(const ModelLayout& layout, const StoreOptions& options);
  GradientSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory);

  // A slot of `device` that fits `layer`'s gradients, if one is free; give it back with release().
  std::optional<int> take(LayerIndex layer, int device);
  std::byte* data(int slot) const { return slots_[static_cast<std::size_t>(slot)].data; }
  // The slot is now kept by `references` (at least 1) users in place of one.
  void share(int slot, int references);
  // Gives up one reference; the last one frees the slot. True when it is free.
  bool release(int slot);
  // Slots in use.
  int taken() const;

 private:
  struct Slot {
    std::byte* data = nullptr;
    int references = 0;
  };
  bool per_layer_;  // held: slot layer * devices_ + device
  std::size_t devices_;
  std::vector<Slot> slots_;
};

}  // namespace l2l::eps
