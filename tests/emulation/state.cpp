#include "tests/emulation/state.h"

#include <atomic>
#include <cstdlib>

namespace l2l::emulation {
namespace {

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::atomic<Order>& current_order() {
  static std::atomic<Order> value = static_cast<Order>(environment("L2L_EMULATION_ORDER", 0));
  return value;
}

struct GuardedMachine {
  std::mutex mutex;
  Machine machine;
};

GuardedMachine& current_machine() {
  static GuardedMachine& made = *[] {
    auto* const first = new GuardedMachine();
    Machine& machine = first->machine;
    machine.devices = static_cast<int>(environment("L2L_EMULATION_DEVICES", 1));
    machine.driver = static_cast<int>(environment("L2L_EMULATION_DRIVER", 13000));
    machine.memory = environment("L2L_EMULATION_MEMORY", machine.memory);
    machine.pinnable = environment("L2L_EMULATION_PINNABLE", machine.pinnable);
    machine.fastest_product = static_cast<int>(environment("L2L_EMULATION_FASTEST_PRODUCT", 0));
    machine.delay = std::chrono::microseconds(environment("L2L_EMULATION_DELAY_US", 0));
    return first;
  }();
  return made;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

void set_order(Order order) { current_order() = order; }
Order order() { return current_order(); }

void set_machine(const Machine& machine) {
  const std::lock_guard lock(current_machine().mutex);
  current_machine().machine = machine;
}

Machine machine() {
  const std::lock_guard lock(current_machine().mutex);
  return current_machine().machine;
}

cudaError_t StickyError::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void StickyError::set(cudaError_t status, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (status_ != cudaSuccess) return;
  status_ = status;
  message_ = message;
}

void StickyError::clear() {
  const std::lock_guard lock(mutex_);
  status_ = cudaSuccess;
}

const char* StickyError::message() const {
  const std::lock_guard lock(mutex_);
  return message_.c_str();
}

bool Ranges::add(const void* memory, std::size_t bytes, std::size_t limit) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  if (bytes > limit || total_ > limit - bytes) return false;
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && begin + bytes > next->first) return false;
  if (next != ranges_.begin() && std::prev(next)->first + std::prev(next)->second > begin) return false;
  ranges_.emplace(begin, bytes);
  total_ += bytes;
  return true;
}

std::size_t Ranges::remove(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(static_cast<const std::byte*>(memory));
  if (found == ranges_.end()) return 0;
  const std::size_t bytes = found->second;
  ranges_.erase(found);
  total_ -= bytes;
  return bytes;
}

// With mutex_ held.
std::map<const std::byte*, std::size_t>::const_iterator Ranges::find(const void* memory) const {
  const auto* const address = static_cast<const std::byte*>(memory);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return ranges_.end();
  --next;
  return address < next->first + next->second ? next : ranges_.end();
}

bool Ranges::holds(const void* memory) const {
  const std::lock_guard lock(mutex_);
  return find(memory) != ranges_.end();
}

bool Ranges::holds_all(const void* memory, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = find(memory);
  return found != ranges_.end() && static_cast<const std::byte*>(memory) + bytes <= found->first + found->second;
}

std::size_t Ranges::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

State& state() {
  static State& made = *new State();
  return made;
}

void clear_error() {
  state().error.clear();
  last_error = cudaSuccess;
}

MemoryKind kind_of(const void* memory) {
  if (state().device.holds(memory)) return MemoryKind::device;
  return state().pinned.holds(memory) ? MemoryKind::pinned : MemoryKind::pageable;
}

cudaError_t report(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

}  // namespace l2l::emulation

using namespace l2l::emulation;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t status = last_error;
  last_error = cudaSuccess;
  const cudaError_t sticky = state().error.status();
  return sticky != cudaSuccess ? sticky : status;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = state().error.status();
  return sticky != cudaSuccess ? sticky : last_error;
}

}  // extern "C"
