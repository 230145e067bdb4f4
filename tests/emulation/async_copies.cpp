#include "tests/emulation/async_copies.h"

#include <cstdint>
#include <cstring>

#include "tests/emulation/runtime.h"

namespace l2l::emulation {

void need_alignment(const char* where, const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  throw Fault(std::string(where) + ": an address is not a multiple of " + std::to_string(bytes));
}

AsyncCopies& AsyncCopies::of_thread() {
  static thread_local std::vector<AsyncCopies> all(1024);
  return all[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)];
}

void AsyncCopies::begin(void* to, const void* from, std::size_t bytes, bool valid) {
  need_alignment("cp.async", to, bytes);
  need_alignment("cp.async", from, bytes);
  if (block_.x != blockIdx.x || block_.y != blockIdx.y || block_.z != blockIdx.z) {
    const bool left = !groups_.empty() || !open_.empty();
    groups_.clear();
    open_.clear();
    if (left) throw Fault("cp.async: an earlier block never waited for its copies");
    block_ = blockIdx;
  }
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
