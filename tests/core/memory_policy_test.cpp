// A preferred NUMA node passes, and the thread's memory policy is then what it was.
#include "core/memory_policy.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace l2l {
namespace {

struct Policy {
  int mode = -1;
  std::array<unsigned long, 16> nodes{};
  bool operator==(const Policy&) const = default;
};

bool get(Policy& policy) {
  return syscall(SYS_get_mempolicy, &policy.mode, policy.nodes.data(), 1024, nullptr, 0) == 0;
}

bool set(int mode, unsigned long nodes) {
  return syscall(SYS_set_mempolicy, mode, nodes == 0 ? nullptr : &nodes, nodes == 0 ? 0 : 64) == 0;
}

TEST(PreferredNode, LeavesThePolicyOfTheThreadAsItWas) {
  struct Case {
    int mode;
    unsigned long nodes;
  };
  for (const Case& set_before : {Case{MPOL_DEFAULT, 0}, Case{MPOL_BIND, 1}, Case{MPOL_INTERLEAVE, 1}}) {
    Policy before, within, after;
    if (!set(set_before.mode, set_before.nodes) || !get(before)) GTEST_SKIP() << "no memory policies here";
    {
      const PreferredNode near(0);
      ASSERT_TRUE(get(within));
    }
    ASSERT_TRUE(get(after));
    EXPECT_EQ(within.mode, MPOL_PREFERRED);
    EXPECT_EQ(before.mode, set_before.mode);
    EXPECT_TRUE(after == before) << set_before.mode;
  }
  set(MPOL_DEFAULT, 0);
}

// The parameter server's lane goes before the node of a device that page-locks its memory. The flag tells the outer
// policy from the inner one, on machines of one node too.
TEST(PreferredNode, APreferenceThatIsThereHolds) {
  Policy before, within;
  if (!set(MPOL_PREFERRED | MPOL_F_STATIC_NODES, 1) || !get(before)) GTEST_SKIP() << "no memory policies here";
  {
    const PreferredNode near(0);
    ASSERT_TRUE(get(within));
  }
  EXPECT_TRUE(within == before);
  set(MPOL_DEFAULT, 0);
}

TEST(PreferredNode, AnUnknownNodeChangesNothing) {
  Policy before, within;
  if (!get(before)) GTEST_SKIP() << "no memory policies here";
  const PreferredNode unknown(-1);
  ASSERT_TRUE(get(within));
  EXPECT_TRUE(within == before);
}

}  // namespace
}  // namespace l2l
