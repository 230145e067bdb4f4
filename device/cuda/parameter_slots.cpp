#include "device/cuda/parameter_slots.h"

#include "device/kernels/common/check.h"

namespace l2l::device::cuda {

static_assert(sizeof(LaunchParameters) <= ParameterSlots::kSlotBytes);

ParameterSlots::ParameterSlots() {
  void* address = nullptr;
  check(cudaMalloc(&address, kBytes), "launch parameters: cudaMalloc");
  memory_ = DeviceMemory(address);
  free_.reserve(kSlots);
  auto* const begin = static_cast<std::byte*>(address);
  for (std::size_t i = kSlots; i-- > 0;) free_.push_back(reinterpret_cast<LaunchParameters*>(begin + i * kSlotBytes));
}

LaunchParameters* ParameterSlots::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    throw DeviceError("a CUDA device has at most " + std::to_string(kSlots) + " streams at a time; destroy some first");
  }
  LaunchParameters* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void ParameterSlots::give(LaunchParameters* slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

}  // namespace l2l::device::cuda
