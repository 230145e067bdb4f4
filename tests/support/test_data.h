// Larger data that is not in the tree: the folder named by the environment variable L2L_TEST_DATA.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace l2l::testing {

// The file or folder `name` below it; empty when there is none: the test then skips.
inline std::filesystem::path test_data(const std::filesystem::path& name) {
  const char* folder = std::getenv("L2L_TEST_DATA");
  if (folder == nullptr || *folder == '\0') return {};
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  return std::filesystem::exists(path) ? path : std::filesystem::path{};
}

}  // namespace l2l::testing
