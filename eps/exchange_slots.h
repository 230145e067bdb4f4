// Memory for gradients on their way between ranks. Not synchronised: guarded by the store's mutex.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Slots for groups, each at most one at a time: one of each group's own, or of any.
class SlotPool {
 public:
  SlotPool(const std::vector<Bytes>& sizes, bool per_group, MemorySource& memory, std::string_view purpose);

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
  bool per_group_;
  std::size_t free_ = 0;
  std::vector<Slot> slots_;
};

// None where there is one rank.
struct ExchangeSlots {
  struct Total {
    Bytes received = 0, sums = 0;
  };
  // What the constructor allocates.
  static Total bytes(const ModelLayout& layout, const StoreOptions& options);
  ExchangeSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory);

  // What a group's update reads of this rank's shard, from its exchange on: the gradients of the other ranks, and
  // before them, where devices are summed first, this rank's sums. Held: each group has its own; eager: as many as
  // there are staging slots for each device, of the size of the largest.
  SlotPool received;
  // Where devices are summed first: sums of the shards of the others, from their job until they have left. Whole
  // gradients in fp32, use by use from the first layer to the last; the part in this rank's shard is not written.
  SlotPool sums;
};

}  // namespace l2l::eps
