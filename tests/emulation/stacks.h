// Stacks of fibers, with an unmapped page below each.
#pragma once

#include <sys/mman.h>

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace l2l::emulation {

// Thread-bound. Memory is taken from the system when touched.
class Stacks {
 public:
  explicit Stacks(std::size_t count) : bytes_(count * kStride) {
    void* const memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < count; ++i) mprotect(memory_ + i * kStride, kGuard, PROT_NONE);
  }
  ~Stacks() { munmap(memory_, bytes_); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  boost::context::stack_context at(std::size_t index) const {
    boost::context::stack_context context;
    const std::size_t apart = index % kColours * kColour;
    context.size = kStride - kGuard - apart;
    context.sp = memory_ + (index + 1) * kStride - apart;
    return context;
  }

 private:
  static constexpr std::size_t kGuard = 4096, kStride = kGuard + (std::size_t{64} << 10);
  // Tops of stacks that are used in turn lie in different sets of the processor's first cache.
  static constexpr std::size_t kColours = 32, kColour = 128;
  std::size_t bytes_;
  std::byte* memory_;
};

// Of the calling thread, until it ends; then of a later one, since to protect a thousand pages takes as long as many a
// kernel. Thread-bound.
class ThreadStacks {
 public:
  explicit ThreadStacks(std::size_t count) {
    const std::lock_guard lock(unused().mutex);
    std::vector<std::unique_ptr<Stacks>>& list = unused().stacks;
    if (list.empty()) list.push_back(std::make_unique<Stacks>(count));
    stacks_ = std::move(list.back());
    list.pop_back();
  }
  ~ThreadStacks() {
    const std::lock_guard lock(unused().mutex);
    unused().stacks.push_back(std::move(stacks_));
  }
  ThreadStacks(const ThreadStacks&) = delete;
  ThreadStacks& operator=(const ThreadStacks&) = delete;

  boost::context::stack_context at(std::size_t index) const { return stacks_->at(index); }

 private:
  struct Unused {
    std::mutex mutex;
    std::vector<std::unique_ptr<Stacks>> stacks;  // guarded by mutex
  };
  static Unused& unused() {
    static auto& all = *new Unused;  // threads may end after the destructors of static objects
    return all;
  }

  std::unique_ptr<Stacks> stacks_;
};

// What Boost.Context asks of an allocator.
struct StackAllocator {
  boost::context::stack_context context;
  boost::context::stack_context allocate() const { return context; }
  void deallocate(boost::context::stack_context&) const {}
};

}  // namespace l2l::emulation
