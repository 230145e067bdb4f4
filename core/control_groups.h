// Memory limits that control groups set for this process.
#pragma once

#include <filesystem>
#include <vector>

#include "core/host_memory.h"

namespace l2l {

// One entry per limit between the process's group and the root of its mount, v2 and v1: the bytes that the group may
// still take, reclaimable page cache counted as free. Groups that cannot be read set no limit (a container often shows
// only its own). `proc`: /proc, except in tests.
std::vector<HostAvailable> control_group_limits(const std::filesystem::path& proc);

}  // namespace l2l
