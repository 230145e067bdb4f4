#include <sys/resource.h>

#include <algorithm>

#include "core/memory_policy.h"
#include "device/cuda/host_ranges.h"
#include "device/cuda/memory.h"
#include "device/kernels/common/check.h"
#include "device/mapped_memory.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

constexpr Bytes kMostAtOnce = 64 * kGiB;

// Its ranges are known to all devices as long as it lives.
class HostBuffer final : public Buffer {
 public:
  HostBuffer(std::shared_ptr<DeviceState> state, std::unique_ptr<Buffer> memory)
      : Buffer(memory->view()), state_(std::move(state)), memory_(std::move(memory)) {}
  ~HostBuffer() override {
    static_cast<void>(cudaSetDevice(state_->settings.index));
    for (const BufferView& range : locked_) {
      HostRanges::of_process().remove(range);
      static_cast<void>(cudaHostUnregister(range.data));
      state_->locked_bytes -= range.size;
    }
    if (staged_) HostRanges::of_process().remove(view_);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  // Registers all of it; returns what the driver says.
  cudaError_t lock_pages() {
    locked_.reserve(view_.size / kMostAtOnce + 1);
    for (Bytes done = 0; done < view_.size; done += kMostAtOnce) {
      const BufferView range = view_.slice(done, std::min(kMostAtOnce, view_.size - done));
      const cudaError_t status = cudaHostRegister(range.data, range.size, cudaHostRegisterPortable);
      if (status != cudaSuccess) return status;
      locked_.push_back(range);
      state_->locked_bytes += range.size;
      HostRanges::of_process().add(range, HostRanges::Kind::locked);
    }
    return cudaSuccess;
  }
  void leave_pageable() {
    staged_ = true;
    HostRanges::of_process().add(view_, HostRanges::Kind::staged);
  }

 private:
  const std::shared_ptr<DeviceState> state_;
  const std::unique_ptr<Buffer> memory_;
  std::vector<BufferView> locked_;
  bool staged_ = false;
};

std::string lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "RLIMIT_MEMLOCK is unknown";
  return "RLIMIT_MEMLOCK is " +
         (limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited") : format_bytes(limit.rlim_cur));
}

[[noreturn]] void refuse_pinned(const DeviceState& state, Bytes size, std::string_view purpose, cudaError_t status) {
  static_cast<void>(cudaGetLastError());
  const Bytes locked = state.locked_bytes;
  throw OutOfMemory(std::string(purpose) + ": the driver does not page-lock " + format_bytes(size) + " (" +
                    std::to_string(size) + " bytes) of host memory beside " + format_bytes(locked) + ": " +
                    describe(status) + ", " + lock_limit() +
                    "; raise it (ulimit -l unlimited), or set device.pinned_memory, beyond which copies are staged");
}

bool beyond_limit(const DeviceState& state, Bytes size) {
  const Bytes limit = state.settings.pinned_memory;
  const Bytes locked = state.locked_bytes;
  return limit > 0 && (size > limit || locked > limit - size);
}

}  // namespace

std::unique_ptr<Buffer> allocate_pinned_memory(const std::shared_ptr<DeviceState>& state, Bytes size,
                                               std::string_view purpose) {
  state->select();
  std::unique_ptr<Buffer> memory;
  {
    const PreferredNode near(state->numa_node);
    memory = map_memory(size, purpose, nullptr);
  }
  auto buffer = std::make_unique<HostBuffer>(state, std::move(memory));
  if (size == 0) return buffer;
  if (beyond_limit(*state, size)) {
    buffer->leave_pageable();
    return buffer;
  }
  const cudaError_t status = buffer->lock_pages();
  if (status != cudaSuccess) refuse_pinned(*state, size, purpose, status);
  return buffer;
}

}  // namespace l2l::device::cuda
