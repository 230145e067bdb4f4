// What to type after a run of l2l-train has failed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace l2l::tools {

// The last line of a failure. `arguments`: the command line that failed; `directory`: of its checkpoints, empty where
// the run did not come so far. With a checkpoint there: the command that goes on from the newest one; after bad input:
// the one that checks whether it is mended; else empty.
std::string next_command(const std::vector<std::string>& arguments, int status, const std::filesystem::path& directory);

}  // namespace l2l::tools
