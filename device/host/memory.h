// Memory of the host device: exact mappings, and the account of which of them play device memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "device/device.h"

namespace l2l::device {

// Thread-safe. Disjoint ranges of memory, their sum and its peak, in the bytes that were asked for.
class MemoryAccount {
 public:
  void add(BufferView range);
  void remove(BufferView range);
  bool contains(const std::byte* address) const;
  Bytes allocated() const;
  Bytes peak() const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, Bytes> ranges_;  // size by first address; guarded by mutex_
  Bytes allocated_ = 0;                       // guarded by mutex_
  Bytes peak_ = 0;                            // guarded by mutex_
};

// An anonymous mapping, every page of it touched. `account` may be empty (pinned memory). Throws OutOfMemory naming
// `purpose`.
std::unique_ptr<Buffer> map_memory(Bytes size, std::string_view purpose, std::shared_ptr<MemoryAccount> account);

}  // namespace l2l::device
