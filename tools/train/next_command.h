// What to type after a run of l2l-train has failed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace l2l::tools {

struct FailedRun {
  std::vector<std::string> arguments;  // the command line
  bool has_config = true;              // whether it names a CONFIG
  std::filesystem::path output;        // --output
  std::filesystem::path directory;     // of its checkpoints; empty where the run did not come so far
};

// The last line of a failure. After bad input: the command that checks whether it is mended. Else the one that goes on
// from the newest checkpoint of `directory` or, where there is none, that starts again.
std::string next_command(const FailedRun& run, int status);

}  // namespace l2l::tools
