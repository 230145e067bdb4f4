// What malloc() holds for each part of L2L: not masters, moments, gradients, stashes and arenas, which are mappings
// of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "l2l/export.h"

namespace l2l {

struct AllocatorRole {
  // "planning": the plan and what making it takes; "text": tokenizers, lists of documents, samples that are read ahead;
  // "staging": what checkpoints and weights pass through to files and from them; "engine": everything else.
  std::string name;
  // Asked for and not freed, rounded up to the allocator's size classes. What a thread has freed of another role's
  // counts until the thread's cache gives it back: some 10 KiB.
  std::uint64_t allocated = 0;
  std::uint64_t resident = 0;  // pages that hold it, and free ones that the system does not have back yet
};

struct AllocatorUse {
  std::string allocator;  // "jemalloc 5.3.0"
  std::vector<AllocatorRole> roles;
};

// Now, of the whole process. Nothing where malloc() is not jemalloc's, which alone keeps account; l2l-train and the
// other tools link it where it is installed, the library leaves the choice to the program. Takes some 50 us.
// Thread-safe.
L2L_API std::optional<AllocatorUse> allocator_use();

}  // namespace l2l
