#include "tests/emulation/async_copies.h"

#include <cstdint>
#include <cstring>

#include "tests/emulation/runtime.h"

namespace l2l::emulation {

void need_alignment(const char* where, const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  throw Fault(std::string(where) + ": an address is not a multiple of " + std::to_string(bytes));
}

namespace {

std::vector<AsyncCopies>& copies_of_threads() {
  static thread_local std::vector<AsyncCopies> all(1024);
  return all;
}

}  // namespace

AsyncCopies& AsyncCopies::of_thread() {
  return copies_of_threads()[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)];
}

bool AsyncCopies::drop_all(std::size_t threads) {
  bool any = false;
  for (std::size_t i = 0; i < threads; ++i) {
    AsyncCopies& copies = copies_of_threads()[i];
    any = any || !copies.open_.empty();
    for (const auto& group : copies.groups_) any = any || !group.empty();
    copies.groups_.clear();
    copies.open_.clear();
  }
  return any;
}

void AsyncCopies::begin(void* to, const void* from, std::size_t bytes, bool valid) {
  need_alignment("cp.async", to, bytes);
  need_alignment("cp.async", from, bytes);
  const Copy copy{to, valid ? from : nullptr, bytes};
  if (order() % 2 == 1) return finish(copy);
  open_.push_back(copy);
}

void AsyncCopies::commit() {
  groups_.push_back(std::move(open_));
  open_.clear();
}

void AsyncCopies::wait(std::size_t pending) {
  while (groups_.size() > pending) {
    for (const Copy& copy : groups_.front()) finish(copy);
    groups_.erase(groups_.begin());
  }
}

void AsyncCopies::finish(const Copy& copy) {
  if (copy.from) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    std::memset(copy.to, 0, copy.bytes);
  }
}

}  // namespace l2l::emulation
