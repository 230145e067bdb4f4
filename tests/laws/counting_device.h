// Counts page-locked bytes, which the contract states exactly.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "device/forwarding_device.h"

namespace l2l::testing {

class CountingDevice final : public device::ForwardingDevice {
 public:
  CountingDevice(std::unique_ptr<device::Device> device, std::uint64_t& pinned)
      : ForwardingDevice(std::move(device)), pinned_(pinned) {}
  std::unique_ptr<device::Buffer> allocate_pinned(Bytes size, std::string_view purpose) override {
    pinned_ += size;
    return ForwardingDevice::allocate_pinned(size, purpose);
  }

 private:
  std::uint64_t& pinned_;
};

}  // namespace l2l::testing
