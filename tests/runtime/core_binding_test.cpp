// Cores of ranks on one machine.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/affinity.h"
#include "runtime/ranks.h"

namespace l2l::runtime {
namespace {

TEST(CoreBinding, ARankWithLessThanItsShareIsTold) {
  EXPECT_EQ(binding_advice(64, 64, 1), "");
  EXPECT_EQ(binding_advice(16, 64, 4), "") << "each has its own";
  EXPECT_EQ(binding_advice(64, 64, 4), "") << "all share all";
  EXPECT_EQ(binding_advice(21, 64, 3), "");
  EXPECT_EQ(binding_advice(0, 64, 4), "") << "not known";
  EXPECT_EQ(binding_advice(1, 0, 4), "") << "not known";
  EXPECT_EQ(
      binding_advice(1, 64, 4),
      "may run on 1 of the 64 cores that 4 processes share on its machine, because mpirun binds it to them: start "
      "it with mpirun --bind-to none");
}

TEST(CoreBinding, AProcessThatIsBoundSeesWhatItsLauncherHas) {
  const CpuSet all = CpuSet::of_thread();
  const pid_t child = fork();
  if (child == 0) {
    const bool bound = CpuSet({all.list().front()}).apply() && CpuSet::of_thread().count() == 1;
    _exit(bound && cpus_of_ancestor_without("L2L_NOT_SET") == all.count() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace l2l::runtime
