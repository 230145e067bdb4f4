// What host kernels exchange with the other devices that have shares of the same layer.
#pragma once

#include "device/kernels/common/operands.h"
#include "device/tensor_group.h"

namespace l2l::device::kernels {

// Immutable. Of an op of a whole layer: the device alone. Of one among neighbours: all devices meet, and each reads
// what its own have given.
class TensorExchange {
 public:
  TensorExchange(const OpView& op) : shard_(op.attributes.shard) {
    if (shard_.count > 1) member_ = *op.tensor;
  }

  bool alone() const { return member_.group == nullptr; }
  // Gives `own` to the others, and calls read(all) when all have given theirs; nobody's changes before all have read.
  template <typename Read>
  void run(const std::byte* own, const Read& read) const {
    if (!member_.group) return read(std::span<const std::byte* const>(&own, 1));
    const auto first = static_cast<std::size_t>(member_.index - shard_.index);
    member_.group->exchange(member_.index, own, [&](std::span<const std::byte* const> all) {
      read(all.subspan(first, static_cast<std::size_t>(shard_.count)));
    });
  }

 private:
  compiler::Shard shard_;
  TensorMember member_;
};

}  // namespace l2l::device::kernels
