// Arenas of the allocator, one for each role, where malloc() is jemalloc's (jemalloc(3)): so what a role holds is
// counted apart (l2l/allocator.h), and lies apart. Elsewhere nothing here does anything.
#pragma once

#include <cstdint>

namespace l2l {

// What memory is asked for. The engine's are the arenas that threads have by themselves.
enum class MemoryRole : std::uint8_t { engine, planning, text, staging };

// While it lives, what the calling thread allocates comes from the role's arena; who frees it, and when, is all the
// same. To enter and to leave empties the thread's cache: for whole phases and whole threads. Threads that are started
// meanwhile begin in the engine's role. Thread-bound; scopes may be nested.
class RoleScope {
 public:
  explicit RoleScope(MemoryRole role);
  ~RoleScope();
  RoleScope(const RoleScope&) = delete;
  RoleScope& operator=(const RoleScope&) = delete;

 private:
  const MemoryRole outer_;
  unsigned int outer_arena_ = 0;
};

// Returns all pages to the system that hold nothing. Thread-safe.
void purge_arenas();

}  // namespace l2l
