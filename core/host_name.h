// What this machine calls itself.
#pragma once

#include <unistd.h>

#include <string>

namespace l2l {

// Empty where the system does not tell.
inline std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace l2l
