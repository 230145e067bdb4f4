// What this process holds of host memory, and what it may still take: the machine's free memory, the limits of its
// control groups (v2 and v1) and its address-space limit.
#pragma once

#include <filesystem>
#include <string>

#include "core/bytes.h"

namespace l2l {

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

// Reads the peak resident memory of this process again and again: no allocation, one system call. Thread-safe.
class PeakResident {
 public:
  // Throws Error when /proc cannot be read.
  PeakResident();
  ~PeakResident();
  PeakResident(const PeakResident&) = delete;
  PeakResident& operator=(const PeakResident&) = delete;

  Bytes bytes() const;

 private:
  const int status_;  // descriptor of /proc/self/status
};

}  // namespace l2l
