// Files and folders that options name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "l2l/options.h"

namespace l2l::runtime {

// ~ and ~/... become the user's home.
void expand_home(Options& options);

// How a checkpoint.directory in a config begins that is in the folder of the config, wherever that is by now.
inline constexpr std::string_view kBesideConfig = "<config>/";

// Relative names of what a run reads become those in the folder of the file `config`, which the options were read from.
// What is not there but in the working directory is taken from there, with a warning, as earlier versions did; not so
// patterns with **. What a run writes stays relative to the working directory, but for a checkpoint.directory in that
// folder (kBesideConfig), which counts as if it were not given.
void resolve_inputs(Options& options, const std::filesystem::path& config);

}  // namespace l2l::runtime
