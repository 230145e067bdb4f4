// l2l-bench link: the bandwidth of page-locked copies, each way alone and both at once.
#pragma once

#include <string>

#include "tools/bench/link_speed.h"

namespace l2l::tools {

struct LinkArguments {
  device::DeviceSettings device;
  std::string size = "256MiB";  // of a copy
};

// Prints a table, or one JSON object, in bytes per second; figures of copies of at least 64 MiB are kept for
// predictions (runtime/tuning/calibration.h). Returns the exit status.
int bench_link(const LinkArguments& arguments, bool json);

}  // namespace l2l::tools
