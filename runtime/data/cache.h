// The user's cache: $XDG_CACHE_HOME/l2l, or else ~/.cache/l2l. It holds what can be made again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "core/bytes.h"

namespace l2l::runtime {

// Empty: neither variable is set.
std::filesystem::path cache_folder();

// Canonical name, size and times of change of a file, in one line.
std::string file_facts(const std::filesystem::path& file);

// What `compute` returned when it was called for the same `facts` before; else calls it and remembers. Where the cache
// cannot be used it is called each time.
std::uint64_t remembered_hash(const std::string& facts, const std::function<std::uint64_t()>& compute);

// Removes from `folder` those files that were not used for longest, but none of `used`, while all take more than
// `most` on a disk with blocks of 4 KiB.
void trim_cache(const std::filesystem::path& folder, const std::set<std::filesystem::path>& used, Bytes most);

// The name under which this process writes a file that is renamed to `path` when it is whole.
std::filesystem::path unfinished(const std::filesystem::path& path);
// Removes from `folder` what processes that have ended left unfinished a day ago.
void remove_unfinished(const std::filesystem::path& folder);

}  // namespace l2l::runtime
