// Which host memory devices can access.
#pragma once

#include <map>
#include <mutex>

#include "device/device.h"

namespace l2l::device::cuda {

// Thread-safe. Disjoint ranges of allocate_pinned(): page-locked ones, each registered by one call (no copy may cross
// the border of two), and those beyond the limit, whose copies are staged.
class HostRanges {
 public:
  // Those of this process, whichever device they were made for: all copy from and to them.
  static HostRanges& of_process();

  enum class Kind : std::uint8_t { foreign, locked, staged };
  struct Part {
    Kind kind;
    Bytes bytes;  // from the address to the end of its range; of foreign memory: all that was asked for
  };

  void add(BufferView range, Kind kind);
  void remove(BufferView range);
  // What `memory` begins with.
  Part front(BufferView memory) const;

 private:
  struct Range {
    Bytes size;
    Kind kind;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Range> ranges_;  // by first address; guarded by mutex_
};

}  // namespace l2l::device::cuda
