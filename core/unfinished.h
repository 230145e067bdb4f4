// Names of files and folders under which a process writes what another name gets when it is whole: NAME.tmp-PROCESS, or
// NAME.tmp-PROCESS-TOKEN where others may write the same at the same time. What a killed process has left is known by
// them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>

namespace l2l {

inline constexpr std::string_view kUnfinished = ".tmp-";

// The process in such a name; nothing for any other name.
std::optional<pid_t> writer_of(const std::filesystem::path& path);
// Whether it is another process than this one, and there. One with the number of this process has ended: a process
// that looks has not begun to write.
bool runs_elsewhere(pid_t process);

}  // namespace l2l
