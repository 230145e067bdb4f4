// Files and folders that options name.
#pragma once

#include <filesystem>
#include <string>

#include "l2l/options.h"

namespace l2l::runtime {

// ~ and ~/... become the user's home.
void expand_home(Options& options);

// Relative names of what a run reads become those in the folder of the file `config`, which the options were read from.
// What is not there but in the working directory is taken from there, with a warning, as earlier versions did; not so
// patterns with **. What a run writes stays relative to the working directory.
void resolve_inputs(Options& options, const std::filesystem::path& config);

}  // namespace l2l::runtime
