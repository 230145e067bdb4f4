// Host memory by anonymous mappings: what host devices use as device memory, and the staging memory of others.
#pragma once

#include <memory>
#include <string_view>

#include "core/memory_account.h"
#include "device/device.h"

namespace l2l::device {

// An anonymous mapping, every page of it touched. `account` may be empty (pinned memory). Throws OutOfMemory naming
// `purpose`.
std::unique_ptr<Buffer> map_memory(Bytes size, std::string_view purpose, std::shared_ptr<MemoryAccount> account);

}  // namespace l2l::device
