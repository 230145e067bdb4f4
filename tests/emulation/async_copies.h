// cp.async for emulated kernels. With an odd order of threads copies happen at once, otherwise as late as they may: when
// their thread waits for them. A kernel that reads before it waits, or overwrites what it may not yet, differs in one of
// the two.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/emulation/engine.h"

namespace l2l::emulation {

// Throws Fault unless `address` is a multiple of `bytes`.
void need_alignment(const char* where, const void* address, std::size_t bytes);

// Copies of one thread of a kernel. Thread-bound.
class AsyncCopies {
 public:
  // Of the thread of a grid that runs.
  static AsyncCopies& of_thread();

  // Zeros when not `valid`. Throws Fault when an address is not aligned, or an earlier block left copies behind.
  void begin(void* to, const void* from, std::size_t bytes, bool valid);
  // Closes a group.
  void commit();
  // Until at most the `pending` latest groups are under way.
  void wait(std::size_t pending);

 private:
  struct Copy {
    void* to;
    const void* from;  // nullptr: zeros
    std::size_t bytes;
  };
  static void finish(const Copy& copy);

  std::vector<std::vector<Copy>> groups_;
  std::vector<Copy> open_;
  uint3 block_{};
};

}  // namespace l2l::emulation
