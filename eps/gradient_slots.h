// Memory for gradients between a device's copy and the update. Not synchronised: guarded by the store's mutex.
#pragma once

#include <optional>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Held: each layer has a slot per device of its own. Eager: a common pool of slots of the largest layer, staging_slots
// and, for every tied group, one per device and further use, since its first contributions wait for the last ones.
class GradientSlots {
 public:
  // Sum of what the constructor asks of its memory source.
  static Bytes bytes(const ModelLayout& layout, const StoreOptions& options);
  GradientSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory);

  // A slot that fits `layer`'s gradients, if one is free; give it back with release().
  std::optional<int> take(LayerIndex layer);
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
  std::size_t slots_per_layer_;  // 0: common pool
  std::vector<Slot> slots_;
};

}  // namespace l2l::eps
