// What GPUs exchange that have shares of the same layer. Counterpart of device/kernels/tensor_exchange.h.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "device/kernels/common/check.h"
#include "device/kernels/common/operands.h"
#include "device/tensor_group.h"

namespace l2l::device::cuda {

// Moves bytes; sums are the kernels'. All members make the same calls, of the same sizes, in the same order.
class GpuTensorGroup : public TensorGroup {
 public:
  // A member as one of those that exchange: `count` members of the group from `first` on.
  struct Place {
    int member, first, count;
  };

  std::shared_ptr<TensorGroup> alone() const final;

  // Enqueues on `stream`, of that member's GPU. Slice k of `whole` becomes what the k-th of them gives, `slice` bytes,
  // apart from `whole`. A call may block until the others have made theirs. Throws DeviceError, and after abort() the
  // cause.
  virtual void all_gather(Place place, const std::byte* given, std::byte* whole, Bytes slice, cudaStream_t stream) = 0;
  // The same, but slice k of `sent` goes to the k-th, and slice k of `received` comes from there.
  virtual void all_to_all(Place place, const std::byte* sent, std::byte* received, Bytes slice,
                          cudaStream_t stream) = 0;
};

// GpuTensorGroup::alone(): the GPU copies what the others would give from itself.
class LoneGpuGroup final : public GpuTensorGroup {
 public:
  explicit LoneGpuGroup(int members) : members_(members) {}

  int members() const override { return members_; }
  void all_gather(Place place, const std::byte* given, std::byte* whole, Bytes slice, cudaStream_t stream) override {
    for (int k = 0; k < place.count; ++k) copy(given, whole + static_cast<Bytes>(k) * slice, slice, stream);
  }
  void all_to_all(Place place, const std::byte* sent, std::byte* received, Bytes slice, cudaStream_t stream) override {
    copy(sent, received, static_cast<Bytes>(place.count) * slice, stream);
  }
  void abort(std::exception_ptr) noexcept override {}

 private:
  static void copy(const std::byte* from, std::byte* to, Bytes bytes, cudaStream_t stream) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
  }

  int members_;
};

inline std::shared_ptr<TensorGroup> GpuTensorGroup::alone() const { return std::make_shared<LoneGpuGroup>(members()); }

// Of an op. Immutable. Of an op of a whole layer: the device alone.
class TensorExchange {
 public:
  explicit TensorExchange(const kernels::OpView& op) {
    if (op.attributes.shard.count == 1) return;
    group_ = std::static_pointer_cast<GpuTensorGroup>(op.tensor->group);
    const int member = op.tensor->index;
    place_ = {member, member - op.attributes.shard.index, op.attributes.shard.count};
  }

  bool alone() const { return group_ == nullptr; }
  int members() const { return place_.count; }
  // Of several. Throw what GpuTensorGroup does.
  void all_gather(const std::byte* given, std::byte* whole, Bytes slice, cudaStream_t stream) const {
    group_->all_gather(place_, given, whole, slice, stream);
  }
  void all_to_all(const std::byte* sent, std::byte* received, Bytes slice, cudaStream_t stream) const {
    group_->all_to_all(place_, sent, received, slice, stream);
  }

 private:
  std::shared_ptr<GpuTensorGroup> group_;
  GpuTensorGroup::Place place_{0, 0, 1};
};

}  // namespace l2l::device::cuda
