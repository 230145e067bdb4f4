// What the link of a device carries: page-locked memory to the device, back, and both at once.
#pragma once

#include <string>

#include "core/bytes.h"
#include "device/open.h"

namespace l2l::tools {

struct LinkSpeed {
  std::string device;                 // its description
  double h2d = 0, d2h = 0;            // bytes per second of each direction alone
  double both_h2d = 0, both_d2h = 0;  // of each, while both run
};

// Copies `bytes` at a time, again and again for some tenths of a second each way, the ways in turn; medians of the
// rounds. Takes 2 x `bytes` of device memory and as much of host memory. Throws as open_device() and Device do.
LinkSpeed measure_link(const device::DeviceSettings& settings, Bytes bytes);

}  // namespace l2l::tools
