// Static shared memory of emulated kernels: `__shared__` is `static thread_local`, so all of it is the thread-local
// memory of the shared library in which the kernels lie. That library says so by exporting kMarker; in others (whose
// thread-local memory holds other things) nothing is poisoned.
#pragma once

#include <cstddef>

namespace l2l::emulation {

// Immutable; apply() acts on the calling thread's memory.
class StaticShared {
 public:
  static constexpr const char* kMarker = "l2l_emulated_kernels_only";
  // `kernel`: an address in the library's code.
  explicit StaticShared(const void* kernel);
  void apply(unsigned char poison) const;
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t module_ = 0, bytes_ = 0;
};

}  // namespace l2l::emulation
