// Replaces the global operators new and delete of a test program by ones that count, per thread. Include it in one file
// of the program only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace l2l::testing {

// Calls of operator new on this thread so far.
inline thread_local std::int64_t allocations = 0;

inline void* counted(std::size_t size) noexcept {
  ++allocations;
  return std::malloc(size);
}

inline void* counted(std::size_t size, std::align_val_t alignment) noexcept {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(step, (size + step - 1) / step * step);
}

inline void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace l2l::testing

// Every form, so that no memory is allocated by one library's operator and freed by another's. Not
// inlined, since GCC then takes a pair for malloc() and delete, or new and free().
[[gnu::noinline]] void* operator new(std::size_t size) { return l2l::testing::checked(l2l::testing::counted(size)); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return l2l::testing::checked(l2l::testing::counted(size)); }
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return l2l::testing::counted(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return l2l::testing::counted(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return l2l::testing::checked(l2l::testing::counted(size, alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return l2l::testing::checked(l2l::testing::counted(size, alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
