// CPU quota that control groups set for this process.
#pragma once

#include <filesystem>

namespace l2l {

// Cores of the tightest quota on the path to this process's group, rounded up; 0 when there is none. `membership` is
// /proc/self/cgroup and `mount` /sys/fs/cgroup; both versions of control groups are understood (Linux,
// admin-guide/cgroup-v2.rst "cpu.max", cgroup-v1 "cpu.cfs_quota_us").
int cpu_quota(const std::filesystem::path& membership, const std::filesystem::path& mount);

}  // namespace l2l
