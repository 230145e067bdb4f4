#include "device/cuda/host_ranges.h"

#include <algorithm>

namespace l2l::device::cuda {

// Never destroyed: buffers of static storage duration may end after it would.
HostRanges& HostRanges::of_process() {
  static HostRanges& ranges = *new HostRanges();
  return ranges;
}

void HostRanges::add(BufferView range, Kind kind) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(range.data, Range{range.size, kind});
}

void HostRanges::remove(BufferView range) {
  const std::lock_guard lock(mutex_);
  ranges_.erase(range.data);
}

HostRanges::Part HostRanges::front(BufferView memory) const {
  const std::lock_guard lock(mutex_);
  auto next = ranges_.upper_bound(memory.data);
  if (next == ranges_.begin()) return {Kind::foreign, memory.size};
  const auto& [begin, range] = *--next;
  const auto offset = static_cast<Bytes>(memory.data - begin);
  if (offset >= range.size) return {Kind::foreign, memory.size};
  return {range.kind, std::min(memory.size, range.size - offset)};
}

}  // namespace l2l::device::cuda
