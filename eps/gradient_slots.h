// Memory for gradients between a device's copy and the update. Not synchronised: guarded by the store's mutex.
#pragma once

#include <optional>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// A "device" here is one that pushes a whole layer: all together are one where devices sum.
// StoreOptions::holds_gradients(): each layer has a slot per device, as large as the largest where layers are
// exchanged. Else StoreOptions::staging_slots of the size of the largest layer, and for every further use of a tied
// group one more per device, since its first contributions wait for the last ones. Each device has an equal share of
// its own, so that a fast one, whose pushes wait for the others, cannot take them all.
class GradientSlots {
 public:
  // Total that the constructor allocates.
  static Bytes bytes(const ModelLayout& layout, const StoreOptions& options);
  GradientSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory);

  // A slot of `device` that fits `layer`'s gradients, if one is free; give it back with release().
  std::optional<int> take(LayerIndex layer, int device);
  std::byte* data(int slot) const { return slots_[static_cast<std::size_t>(slot)].data; }
  // The slot, which had one user, now has `references` (at least 1).
  void share(int slot, int references);
  // Drops one reference; the last one frees the slot.
  void release(int slot);

 private:
  struct Slot {
    std::byte* data = nullptr;
    int references = 0;
  };
  bool per_layer_;  // slot layer * devices_ + device
  std::size_t devices_;
  std::vector<Slot> slots_;
};

}  // namespace l2l::eps
