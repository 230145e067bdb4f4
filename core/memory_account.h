// The ranges of device memory, with their total and its peak. Every device keeps one: a copy asks it whether it crosses
// the link, and the peak is compared with the memory contract.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "core/bytes.h"

namespace l2l {

// Thread-safe.
class MemoryAccount {
 public:
  void add(const std::byte* address, Bytes size);
  void remove(const std::byte* address, Bytes size);
  bool contains(const std::byte* address) const;
  Bytes allocated() const;
  Bytes peak() const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, Bytes> ranges_;  // size by first address; guarded by mutex_
  Bytes allocated_ = 0;                       // guarded by mutex_
  Bytes peak_ = 0;                            // guarded by mutex_
};

}  // namespace l2l
