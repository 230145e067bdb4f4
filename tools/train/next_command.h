// What to type after a run of l2l-train has failed or was stopped.
#pragma once

#include <filesystem>
#include <string>

#include "tools/train/arguments.h"

namespace l2l::tools {

// The last line on stderr. After bad input: the command that checks whether it is mended. Else the one that goes on
// from the newest checkpoint of `directory` or, where there is none, that starts again. `directory`: of the run's
// checkpoints; empty where the run did not come so far.
std::string next_command(const TrainArguments& arguments, int status, const std::filesystem::path& directory);
// The last line where --resume names a directory without a checkpoint: the command that begins there.
std::string beginning_command(const TrainArguments& arguments);

}  // namespace l2l::tools
