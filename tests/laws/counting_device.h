// Counts page-locked bytes, which the contract states exactly.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tests/support/fault_device.h"

namespace l2l::testing {

class CountingDevice final : public device::FaultDevice {
 public:
  CountingDevice(std::unique_ptr<device::HostDevice> device, std::uint64_t& pinned)
      : FaultDevice(std::move(device), {}), pinned_(pinned) {}
  std::unique_ptr<device::Buffer> allocate_pinned(Bytes size, std::string_view purpose) override {
    pinned_ += size;
    return FaultDevice::allocate_pinned(size, purpose);
  }

 private:
  std::uint64_t& pinned_;
};

}  // namespace l2l::testing
