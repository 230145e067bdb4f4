// Shared objects of this tree that are opened at run time, so that programs run where what they need is not installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace l2l {

// Where `file` may lie, the likeliest place first: beside the program or library that runs, in the library folder
// beside a program's, in `build_folder` of the build tree, in the prefix of the configuration. At least one place.
std::vector<std::filesystem::path> module_places(const std::string& file, const std::string& build_folder);

}  // namespace l2l
