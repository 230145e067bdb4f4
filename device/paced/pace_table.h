// What the work of a paced device costs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "core/bytes.h"

namespace l2l::device {

struct PaceTable {
  Bytes h2d_bandwidth = 0;  // bytes per second; 0: copies take no time
  Bytes d2h_bandwidth = 0;
  std::map<std::string, std::chrono::nanoseconds, std::less<>> launches;  // by name of the program's graph
  std::chrono::nanoseconds other{0};                                      // a launch of any other program
};

}  // namespace l2l::device
