// Memory by role where malloc() is the C library's: there is no account, and scopes change nothing.
#include <gtest/gtest.h>

#include <memory>

#include "core/allocator_roles.h"
#include "core/host_memory.h"
#include "l2l/allocator.h"

namespace l2l {
namespace {

TEST(AllocatorRoles, NothingIsKnownOfAnotherAllocator) {
  const RoleScope scope(MemoryRole::text);
  const auto kept = std::make_unique<char[]>(1 << 20);
  EXPECT_FALSE(allocator_use().has_value());
  release_free_memory();
}

}  // namespace
}  // namespace l2l
