// Chooses a backend. Which ones exist is decided by the files that link: cuda/ or no_cuda.cpp.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace l2l::device {

struct DeviceSettings {
  std::string kind = "auto";  // "auto" | "host" | "cuda"
  int threads = 0;            // host: compute threads; 0: all available cores
  Bytes link_bandwidth = 0;   // host: bytes per second in each direction; 0: unthrottled
};

// Throws BadInput when `kind` is unknown or not available in this build, saying what is.
std::unique_ptr<Device> open_device(const DeviceSettings& settings);

}  // namespace l2l::device
