// Limits that control groups set for this process (Linux, admin-guide/cgroup-v2.rst; cgroup-v1).
#pragma once

#include <filesystem>
#include <vector>

#include "core/host_memory.h"

namespace l2l {

// One entry per limit between the process's group and the root of its mount, v2 and v1: the bytes that the group may
// still take, reclaimable page cache counted as free. Groups that cannot be read set no limit (a container often shows
// only its own). `proc`: /proc, except in tests.
std::vector<HostAvailable> control_group_limits(const std::filesystem::path& proc);

// Cores of the tightest CPU quota on the path to this process's group ("cpu.max", or v1 "cpu.cfs_quota_us"), rounded
// up; 0 when there is none. `membership`: /proc/self/cgroup, and `mount`: /sys/fs/cgroup, except in tests.
int cpu_quota(const std::filesystem::path& membership, const std::filesystem::path& mount);

}  // namespace l2l
