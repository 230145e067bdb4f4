// The log sink, fault points and processor quotas.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/control_groups.h"
#include "core/fault_point.h"
#include "core/log.h"
#include "core/workers.h"
#include "tests/support/temporary_folder.h"

namespace l2l {
namespace {

TEST(Log, TheSinkGetsEveryMessageOneAtATime) {
  int inside = 0;
  std::vector<std::string> messages;
  set_log_sink([&](LogLevel level, std::string_view message) {
    EXPECT_EQ(++inside, 1);
    if (level == LogLevel::warning) messages.emplace_back(message);
    --inside;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) log(LogLevel::warning, "careful");
      log(LogLevel::info, "not counted");
    });
  }
  for (std::thread& thread : threads) thread.join();
  set_log_sink({});
  EXPECT_EQ(messages, std::vector<std::string>(300, "careful"));
}

TEST(Log, WithoutASinkMessagesGoToStderr) {
  ::testing::internal::CaptureStderr();
  log(LogLevel::error, "it broke");
  log(LogLevel::info, "it runs");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "error: it broke\nit runs\n");
}

TEST(FaultPoint, IsTrueOnlyWhileItsNameIsArmed) {
#ifdef L2L_FAULT_POINTS
  EXPECT_FALSE(fault_point("break law 1"));
  arm_fault_point(std::string("break law 1").c_str());
  EXPECT_TRUE(fault_point("break law 1"));
  EXPECT_FALSE(fault_point("break law 2"));
  arm_fault_point("break law 2");
  EXPECT_FALSE(fault_point("break law 1"));
  arm_fault_point("");
  EXPECT_FALSE(fault_point("break law 2"));
#else
  static_assert(!fault_point("break law 1"));
#endif
}

class CpuQuota : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int quota() { return cpu_quota(folder_ / "membership", folder_ / "mount"); }

  testing::TemporaryFolder folder_;
};

TEST_F(CpuQuota, NoneWithoutFilesOrLimits) {
  EXPECT_EQ(quota(), 0);
  write("membership", "0::/job\n");
  write("mount/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CpuQuota, Version2RoundsUpAndTakesTheTightestAncestor) {
  write("membership", "0::/user/job\n");
  write("mount/user/job/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 4);
  write("mount/user/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 2);
  write("mount/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CpuQuota, Version1ReadsTheCpuHierarchy) {
  write("membership", "5:memory:/job\n4:cpu,cpuacct:/job\nnonsense\n");
  write("mount/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("mount/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), 0);
  write("mount/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(quota(), 3);
}

// In a container the group's path is the host's, and only the mount's root exists.
TEST_F(CpuQuota, PathOutsideTheMountFallsBackToItsRoot) {
  write("membership", "0::/docker/0123456789\n");
  write("mount/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST(Cores, AtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace l2l
