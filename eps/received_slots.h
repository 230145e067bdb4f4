// Memory for the gradients of this rank's shards that come from other ranks, from their exchange to the update. Not
// synchronised: guarded by the store's mutex.
#pragma once

#include <optional>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Held: each group has its own. Eager: as many as there are staging slots for each device, of the size of the largest.
// None where there is one rank.
class ReceivedSlots {
 public:
  // Total that the constructor allocates.
  static Bytes bytes(const ModelLayout& layout, const StoreOptions& options);
  ReceivedSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory);

  // Whether take() gives one for any group.
  bool has_room() const { return per_group_ || free_ > 0; }
  // Give it back with release().
  std::optional<int> take(GroupIndex group);
  std::byte* data(int slot) const { return slots_[static_cast<std::size_t>(slot)].data; }
  void release(int slot);

 private:
  struct Slot {
    std::byte* data = nullptr;
    bool taken = false;
  };
  bool per_group_;  // held
  std::size_t free_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace l2l::eps
