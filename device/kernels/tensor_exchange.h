// What host kernels exchange with the other devices that have shares of the same layer.
#pragma once

#include "device/kernels/common/operands.h"
#include "device/tensor_group.h"

namespace l2l::device::kernels {

// Immutable. Of an op of a whole layer: the device alone.
class TensorExchange {
 public:
  TensorExchange(const OpView& op) {
    if (op.attributes.shard.count > 1) member_ = *op.tensor;
  }

  bool alone() const { return member_.group == nullptr; }
  // Gives `own` to the others, and calls read(all) when all have given theirs; nobody's changes before all have read.
  template <typename Read>
  void run(const std::byte* own, const Read& read) const {
    if (member_.group) return member_.group->exchange(member_.index, own, read);
    read(std::span<const std::byte* const>(&own, 1));
  }

 private:
  TensorMember member_;
};

}  // namespace l2l::device::kernels
