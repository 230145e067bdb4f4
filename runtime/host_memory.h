// What this process holds of host memory, and what it may still take: the machine's free memory, the limits of its
// control groups (v2 and v1) and its address-space limit.
#pragma once

#include <filesystem>
#include <string>

#include "core/bytes.h"

namespace l2l::runtime {

struct HostAvailable {
  Bytes bytes = 0;     // that may still be taken before the tightest limit
  std::string source;  // that limit, for messages: "memory.max of /sys/fs/cgroup/job"
};

// Immutable. Every function reads afresh and throws Error naming file and field that cannot be read.
class HostMemory {
 public:
  // Tests pass a directory laid out like /proc.
  explicit HostMemory(std::filesystem::path proc = "/proc") : proc_(std::move(proc)) {}

  Bytes peak_resident() const;  // of this process so far (VmHWM)
  Bytes resident() const;       // now (VmRSS)
  HostAvailable available() const;

 private:
  HostAvailable address_space() const;  // RLIMIT_AS

  std::filesystem::path proc_;
};

}  // namespace l2l::runtime
