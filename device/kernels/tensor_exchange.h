// What host kernels exchange with the other devices that have shares of the same layer.
#pragma once

#include "device/host_tensor_group.h"
#include "device/kernels/common/operands.h"

namespace l2l::device::kernels {

// Immutable. Of an op of a whole layer: the device alone. Of one among neighbours: all devices meet, and each reads
// what its own have given.
class TensorExchange {
 public:
  TensorExchange(const OpView& op) : shard_(op.attributes.shard) {
    if (shard_.count == 1) return;
    group_ = std::static_pointer_cast<HostTensorGroup>(op.tensor->group);
    member_ = op.tensor->index;
  }

  bool alone() const { return group_ == nullptr; }
  // Gives `own` to the others, and calls read(all) when all have given theirs; nobody's changes before all have read.
  template <typename Read>
  void run(const std::byte* own, const Read& read) const {
    if (!group_) return read(std::span<const std::byte* const>(&own, 1));
    const auto first = static_cast<std::size_t>(member_ - shard_.index);
    group_->exchange(member_, own, [&](std::span<const std::byte* const> all) {
      read(all.subspan(first, static_cast<std::size_t>(shard_.count)));
    });
  }

 private:
  compiler::Shard shard_;
  std::shared_ptr<HostTensorGroup> group_;
  int member_ = 0;
};

}  // namespace l2l::device::kernels
