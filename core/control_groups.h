// Memory limits of the control groups of this process.
#pragma once

#include <filesystem>
#include <vector>

#include "core/host_memory.h"

namespace l2l {

// One entry per limit on the way from the process's group to the root of its mount, v2 and v1: what the group may still
// take, page cache that the kernel would give up counted as free. Groups that cannot be read set no limit (a container
// often shows only its own). `proc` is /proc but in tests.
std::vector<HostAvailable> control_group_limits(const std::filesystem::path& proc);

}  // namespace l2l
