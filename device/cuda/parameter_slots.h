// Where the launch parameters of streams lie in device memory.
#pragma once

#include <mutex>
#include <vector>

#include "device/device.h"
#include "device/kernels/common/handle.h"

namespace l2l::device::cuda {

// One allocation for all streams of a device, made when the device is opened: streams take nothing from the memory that
// a plan may count on. Thread-safe.
class ParameterSlots {
 public:
  static constexpr Bytes kBytes = 4 * kKiB;  // of all, on the device that is selected
  static constexpr Bytes kSlotBytes = 64;
  static constexpr std::size_t kSlots = kBytes / kSlotBytes;

  // Throws DeviceError.
  ParameterSlots();
  // Throws DeviceError when all are taken.
  LaunchParameters* take();
  void give(LaunchParameters* slot);

 private:
  DeviceMemory memory_;
  std::mutex mutex_;
  std::vector<LaunchParameters*> free_;  // guarded by mutex_
};

// One of them, for as long as it lives.
class ParameterSlot {
 public:
  // Throws DeviceError.
  explicit ParameterSlot(ParameterSlots& slots) : slots_(slots), address_(slots.take()) {}
  ~ParameterSlot() { slots_.give(address_); }
  ParameterSlot(const ParameterSlot&) = delete;
  ParameterSlot& operator=(const ParameterSlot&) = delete;
  LaunchParameters* get() const { return address_; }

 private:
  ParameterSlots& slots_;
  LaunchParameters* const address_;
};

// Enqueues on `stream` that `parameters` are written to `destination` in device memory. They travel with the launch, so
// nothing on the host must outlive the call. Throws DeviceError.
void write_parameters(LaunchParameters* destination, const LaunchParameters& parameters, cudaStream_t stream);

}  // namespace l2l::device::cuda
