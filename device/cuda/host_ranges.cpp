#include "device/cuda/host_ranges.h"

#include <algorithm>

namespace l2l::device::cuda {

void HostRanges::add(BufferView range, Kind kind) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(range.data, Range{range.size, kind});
  if (kind == Kind::locked) locked_ += range.size;
}

void HostRanges::remove(BufferView range) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(range.data);
  if (found == ranges_.end()) return;
  if (found->second.kind == Kind::locked) locked_ -= found->second.size;
  ranges_.erase(found);
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

Bytes HostRanges::locked_bytes() const {
  const std::lock_guard lock(mutex_);
  return locked_;
}

}  // namespace l2l::device::cuda
