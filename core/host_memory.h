// Host memory that this process holds and may still take, by the machine's free memory, the limits of its control
// groups (v2 and v1) and its address-space limit.
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace l2l {

struct HostAvailable {
  Bytes bytes = 0;     // up to the tightest limit
  std::string source;  // name of that limit for messages: "memory.max of /sys/fs/cgroup/job"
  // All that a process may hold under this limit, however much of what it holds now was counted as free or elsewhere.
  Bytes limit = std::numeric_limits<Bytes>::max();
};

// Immutable. Every function reads anew; throws Error naming the file and field that cannot be read.
class HostMemory {
 public:
  // Tests pass a directory laid out like /proc.
  explicit HostMemory(std::filesystem::path proc = "/proc") : proc_(std::move(proc)) {}

  Bytes peak_resident() const;       // of this process so far (VmHWM)
  Bytes resident() const;            // now (VmRSS)
  Bytes address_space_used() const;  // what RLIMIT_AS counts (VmSize)
  Bytes data_used() const;           // what RLIMIT_DATA counts (VmData)
  HostAvailable available() const;
  // `bytes` is what this process may hold in all: what it holds now and may still take, at most the limit itself. Its
  // mapped files are part of what it holds and of a group's reclaimable cache, so the sum alone would count them twice.
  // Of what the machine and control groups have left it may take an equal share among `processes` that are to run here.
  HostAvailable capacity(int processes = 1) const;

 private:
  HostAvailable address_space() const;  // RLIMIT_AS
  std::vector<HostAvailable> limits(int processes) const;

  std::filesystem::path proc_;
};

// Returns to the system what the allocator has free, where it can, so that what the process holds is what it uses.
void release_free_memory();

// Peak resident memory of this process, read without an allocation. Thread-safe.
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
