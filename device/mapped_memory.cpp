#include "device/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "core/host_memory.h"
#include "core/process_limits.h"
#include "core/workers.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

std::string need(Bytes size, std::string_view purpose) {
  return std::string(purpose) + ": needs " + format_bytes(size) + " (" + std::to_string(size) +
         " bytes) of host memory";
}

std::byte* map(Bytes size, std::string_view purpose) {
  const HostAvailable available = HostMemory().available();
  // Touching more pages than there are would not fail here: the kernel would kill somebody.
  if (size > available.bytes) {
    throw OutOfMemory(need(size, purpose) + ", " + format_bytes(available.bytes) + " are available (" +
                      available.source + "), " + format_bytes(size - available.bytes) +
                      " short; use a smaller model or batch, or free memory");
  }
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    throw OutOfMemory(need(size, purpose) + "; limits: " + limits_in_force() +
                      "; raise the limit, or use a smaller model or batch");
  }
  return static_cast<std::byte*>(address);
}

void touch_pages(BufferView range) {
  const auto page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  for (Bytes offset = 0; offset < range.size; offset += page) {
    *const_cast<volatile std::byte*>(range.data + offset) = std::byte{0};
  }
}

// Memory that one thread touches: the system zeroes pages at some gigabytes a second and thread.
constexpr Bytes kTouchedByOne = 256 * kMiB;
constexpr Bytes kMostTouchers = 16;

// In parts of at least kTouchedByOne, each by a thread of its own, since the system zeroes pages when they are touched.
// Threads inherit the memory policy of the one that starts them.
void touch(BufferView range) {
  madvise(range.data, range.size, MADV_HUGEPAGE);  // advice: fewer TLB misses where the system has such pages
  const Bytes most = std::clamp<Bytes>(static_cast<Bytes>(available_cores()), 1, kMostTouchers);
  const Bytes parts = std::clamp<Bytes>(range.size / kTouchedByOne, 1, most);
  const Bytes part = align_up(range.size / parts, 2 * kMiB);
  std::vector<std::jthread> helpers;  // join at the end
  for (Bytes begin = part; begin < range.size; begin += part) {
    helpers.emplace_back(touch_pages, range.slice(begin, std::min(part, range.size - begin)));
  }
  touch_pages(range.slice(0, std::min(part, range.size)));
}

class Mapping : public Buffer {
 public:
  Mapping(Bytes size, std::string_view purpose) : Buffer({map(size, purpose), size}) {}
  ~Mapping() override {
    if (account_) account_->remove(view_.data, view_.size);
    munmap(view_.data, view_.size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void count_in(std::shared_ptr<MemoryAccount> account) {
    if (account) account->add(view_.data, view_.size);
    account_ = std::move(account);
  }

 private:
  std::shared_ptr<MemoryAccount> account_;
};

class NoMemory : public Buffer {
 public:
  NoMemory() : Buffer({}) {}
};

}  // namespace

std::unique_ptr<Buffer> map_memory(Bytes size, std::string_view purpose, std::shared_ptr<MemoryAccount> account) {
  if (size == 0) return std::make_unique<NoMemory>();
  auto mapping = std::make_unique<Mapping>(size, purpose);
  touch(mapping->view());
  mapping->count_in(std::move(account));
  return mapping;
}

}  // namespace l2l::device
