#include "core/memory_account.h"

#include <algorithm>

namespace l2l {

void MemoryAccount::add(const std::byte* address, Bytes size) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(address, size);
  allocated_ += size;
  peak_ = std::max(peak_, allocated_);
}

void MemoryAccount::remove(const std::byte* address, Bytes size) {
  const std::lock_guard lock(mutex_);
  ranges_.erase(address);
  allocated_ -= size;
}

bool MemoryAccount::contains(const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(address);
  return range != ranges_.begin() && address < (--range)->first + range->second;
}

Bytes MemoryAccount::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

Bytes MemoryAccount::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace l2l
