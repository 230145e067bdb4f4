#include "device/cuda/memory.h"

#include "device/kernels/common/check.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::shared_ptr<DeviceState> state, DeviceMemory memory, Bytes size)
      : Buffer({static_cast<std::byte*>(memory.get()), size}), state_(std::move(state)), memory_(std::move(memory)) {
    if (size > 0) state_->device_memory->add(view_.data, view_.size);
  }
  ~DeviceBuffer() override {
    if (view_.size > 0) state_->device_memory->remove(view_.data, view_.size);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

 private:
  const std::shared_ptr<DeviceState> state_;
  const DeviceMemory memory_;
};

[[noreturn]] void refuse(const DeviceState& state, Bytes size, std::string_view purpose, cudaError_t status) {
  static_cast<void>(cudaGetLastError());
  std::string message =
      std::string(purpose) + ": needs " + format_bytes(size) + " (" + std::to_string(size) + " bytes) of device memory";
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    const Bytes ours = state.device_memory->allocated();
    const Bytes others = total - free > ours ? total - free - ours : 0;
    message += ", " + format_bytes(free) + " of " + format_bytes(total) + " are free";
    if (size > free) message += ", " + format_bytes(size - free) + " short";
    message +=
        " (this device holds " + format_bytes(ours) + ", driver and other processes " + format_bytes(others) + ")";
  }
  if (status != cudaErrorMemoryAllocation) message += "; " + std::string(cudaGetErrorString(status));
  throw OutOfMemory(message + "; use a smaller batch or model, or free memory of the GPU");
}

}  // namespace

std::unique_ptr<Buffer> allocate_device_memory(const std::shared_ptr<DeviceState>& state, Bytes size,
                                               std::string_view purpose) {
  state->select();
  void* address = nullptr;
  if (size > state->memory().total) refuse(*state, size, purpose, cudaErrorMemoryAllocation);
  if (size > 0) {
    const cudaError_t status = cudaMalloc(&address, size);
    if (status != cudaSuccess) refuse(*state, size, purpose, status);
  }
  return std::make_unique<DeviceBuffer>(state, DeviceMemory(address), size);
}

}  // namespace l2l::device::cuda
