#include "core/host_memory.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <vector>

#include "core/control_groups.h"
#include "l2l/errors.h"
#include "tests/support/temporary_folder.h"

namespace l2l {
namespace {

using ::l2l::testing::TemporaryFolder;

// A machine of plain files: /proc and control groups below one folder.
class FakeMachine {
 public:
  FakeMachine() {
    write("proc/meminfo", "MemTotal:       100000 kB\nMemAvailable:    50000 kB\n");
    write("proc/self/status", "Name:\ttest\nVmSize:\t 9000 kB\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n");
  }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  void remove(const std::string& name) { std::filesystem::remove_all(folder_ / name); }

  // Mounts `mount` (below the folder), which shows the hierarchy from `root` down.
  void mount(const std::string& mount, const std::string& root, const std::string& type, const std::string& options) {
    mounts_ += "30 23 0:26 " + root + " " + (folder_ / mount).string() + " rw,nosuid shared:4 - " + type + " " + type +
               " " + options + "\n";
    write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" + mounts_);
  }

  HostMemory memory() const { return HostMemory(folder_ / "proc"); }
  HostAvailable available() const { return memory().available(); }

 private:
  TemporaryFolder folder_;
  std::string mounts_;
};

TEST(HostMemory, ReadsTheProcess) {
  const FakeMachine machine;
  EXPECT_EQ(machine.memory().peak_resident(), 2000 * kKiB);
  EXPECT_EQ(machine.memory().resident(), 1000 * kKiB);
}

TEST(HostMemory, WithoutLimitsTheMachineIsTheLimit) {
  const FakeMachine machine;
  EXPECT_EQ(machine.available().bytes, 50000 * kKiB);
  EXPECT_NE(machine.available().source.find("MemAvailable"), std::string::npos);
}

TEST(HostMemory, UnifiedGroupsLimitUpToTheirRoot) {
  FakeMachine machine;
  machine.mount("cg", "/", "cgroup2", "rw");
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  machine.write("cg/outer/inner/memory.max", "max\n");
  machine.write("cg/outer/inner/memory.current", "5000000\n");
  machine.write("cg/outer/memory.max", "20000000\n");
  machine.write("cg/outer/memory.current", "9000000\n");
  machine.write("cg/outer/memory.stat", "anon 6000000\ninactive_file 1000000\nactive_file 500000\nshmem 1\n");
  // 20,000,000 less what cannot be given back: 9,000,000 - 1,500,000 of page cache.
  EXPECT_EQ(machine.available().bytes, 12'500'000u);
  EXPECT_NE(machine.available().source.find("outer/memory.max"), std::string::npos) << machine.available().source;
  machine.write("cg/outer/inner/memory.max", "6000000\n");
  EXPECT_EQ(machine.available().bytes, 1'000'000u) << "the inner group is tighter";
}

TEST(HostMemory, AFullGroupHasNothingLeft) {
  FakeMachine machine;
  machine.mount("cg", "/", "cgroup2", "rw");
  machine.write("proc/self/cgroup", "0::/job\n");
  machine.write("cg/job/memory.max", "1000\n");
  machine.write("cg/job/memory.current", "5000\n");
  EXPECT_EQ(machine.available().bytes, 0u);
}

TEST(HostMemory, InAContainerTheMountIsTheGroup) {
  FakeMachine machine;
  machine.mount("cg", "/docker/abc", "cgroup2", "rw");
  machine.write("proc/self/cgroup", "0::/docker/abc\n");
  machine.write("cg/memory.max", "3000000\n");
  machine.write("cg/memory.current", "1000000\n");
  EXPECT_EQ(machine.available().bytes, 2'000'000u);
  machine.write("proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(machine.available().bytes, 2'000'000u) << "a path that the mount does not show";
}

TEST(HostMemory, LegacyGroups) {
  FakeMachine machine;
  machine.mount("cpu", "/", "cgroup", "rw,cpu,cpuacct");
  machine.mount("mem", "/", "cgroup", "rw,memory");
  machine.write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
  machine.write("mem/job/memory.limit_in_bytes", "8000000\n");
  machine.write("mem/job/memory.usage_in_bytes", "3000000\n");
  machine.write("mem/job/memory.stat", "total_inactive_file 400000\ntotal_active_file 100000\n");
  machine.write("mem/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("mem/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(machine.available().bytes, 5'500'000u);
}

// What a process maps of files is in its resident memory and in its group's reclaimable cache: 1,000 KiB are held here,
// all of them such pages.
TEST(HostMemory, TheCapacityIsAtMostTheLimitOfTheGroup) {
  FakeMachine machine;
  machine.mount("mem", "/", "cgroup", "rw,memory");
  machine.write("proc/self/cgroup", "4:memory:/job\n");
  machine.write("mem/job/memory.limit_in_bytes", "8192000\n");
  machine.write("mem/job/memory.usage_in_bytes", "1024000\n");
  machine.write("mem/job/memory.stat", "total_inactive_file 24000\ntotal_active_file 1000000\n");
  EXPECT_EQ(machine.memory().capacity().bytes, 8'192'000u);
  EXPECT_NE(machine.memory().capacity().source.find("job/memory.limit_in_bytes"), std::string::npos);
  machine.write("mem/job/memory.stat", "total_inactive_file 0\ntotal_active_file 0\n");
  machine.write("mem/job/memory.usage_in_bytes", "4000000\n");
  EXPECT_EQ(machine.memory().capacity().bytes, 8'192'000u - 4'000'000u + 1000 * kKiB) << "others in the group";
}

TEST(HostMemory, WithoutLimitsTheCapacityIsWhatIsHeldAndFree) {
  const FakeMachine machine;
  EXPECT_EQ(machine.memory().capacity().bytes, 51000 * kKiB);
}

TEST(HostMemory, ProcessesShareWhatTheMachineAndGroupsHaveLeft) {
  FakeMachine machine;
  EXPECT_EQ(machine.memory().capacity(4).bytes, (1000 + 50000 / 4) * kKiB);
  EXPECT_EQ(machine.memory().capacity(4).source, "the share of each of 4 processes in MemAvailable of the machine");
  machine.mount("mem", "/", "cgroup", "rw,memory");
  machine.write("proc/self/cgroup", "4:memory:/job\n");
  machine.write("mem/job/memory.limit_in_bytes", "16384000\n");
  machine.write("mem/job/memory.usage_in_bytes", "8192000\n");
  EXPECT_EQ(machine.memory().capacity(2).bytes, 1000 * kKiB + 4'096'000u);
}

TEST(HostMemory, UnreadableGroupsSetNoLimit) {
  FakeMachine machine;
  machine.mount("cg", "/", "cgroup2", "rw");
  machine.write("proc/self/cgroup", "garbage\n0::/job\n::\n");
  machine.write("cg/job/memory.max", "not a number\n");
  machine.write("cg/job/memory.current", "");
  EXPECT_EQ(machine.available().bytes, 50000 * kKiB);
}

TEST(HostMemory, MissingAndBrokenFieldsAreNamed) {
  FakeMachine machine;
  machine.write("proc/self/status", "VmHWM:\tmany kB\nVmRSS:\t99999999999999999999 kB\n");
  const auto message = [](auto function) -> std::string {
    try {
      function();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([&] { machine.memory().peak_resident(); }).find("status: VmHWM is not a number"),
            std::string::npos);
  EXPECT_NE(message([&] { machine.memory().resident(); }).find("status: VmRSS is not a number"), std::string::npos);
  machine.write("proc/meminfo", "MemTotal: 1 kB\n");
  EXPECT_NE(message([&] { machine.available(); }).find("meminfo: has no MemAvailable"), std::string::npos);
  machine.remove("proc");
  EXPECT_NE(message([&] { machine.memory().resident(); }).find("cannot be opened"), std::string::npos);
}

TEST(HostMemory, SeesRealMemoryComeAndGo) {
  const HostMemory memory;
  const Bytes before = memory.resident();
  constexpr Bytes kSize = 64 * kMiB;
  void* const block = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kSize);
  EXPECT_GT(memory.resident(), before + kSize - 4 * kMiB);
  EXPECT_GE(memory.peak_resident(), memory.resident());
  munmap(block, kSize);
  EXPECT_LT(memory.resident(), before + kSize / 2);
  EXPECT_GE(memory.peak_resident(), before + kSize - 4 * kMiB) << "the peak stays";
  EXPECT_GT(memory.available().bytes, 0u);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes of addresses
// The list of its groups stands before the field in /proc/self/status.
TEST(HostMemory, ThePeakIsFoundForAUserOfManyGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may have more groups";
  constexpr int kFound = 0, kMissed = 1, kNoGroups = 2;
  const auto peak_with = [](std::size_t groups) {
    std::vector<gid_t> ids(groups);
    std::iota(ids.begin(), ids.end(), gid_t{4'000'000'000});
    const pid_t child = fork();
    if (child == 0) {
      if (setgroups(ids.size(), ids.data()) != 0) _exit(kNoGroups);
      _exit(PeakResident().bytes() > kMiB ? kFound : kMissed);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : kMissed;
  };
  if (peak_with(1) == kNoGroups) GTEST_SKIP() << "this root may have no such groups";
  for (std::size_t groups = 330; groups < 400; ++groups) ASSERT_EQ(peak_with(groups), kFound) << groups;
  EXPECT_EQ(peak_with(2000), kFound);
}

TEST(HostMemory, TheAddressSpaceLimitCounts) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  FakeMachine machine;  // 50,000 kB available, 9,000 kB of addresses in use
  const rlimit tight{(9000 + 700) * kKiB, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  HostAvailable seen;
  try {
    seen = machine.available();
  } catch (...) {
    setrlimit(RLIMIT_AS, &old);
    throw;
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_EQ(seen.bytes, 700 * kKiB);
  EXPECT_NE(seen.source.find("ulimit -v"), std::string::npos);
}
#endif

}  // namespace
}  // namespace l2l
