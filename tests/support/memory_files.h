// Tests that write thousands of small files do so in memory, where the system has a folder for that and TMPDIR does not
// say otherwise.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace l2l::testing {

inline const bool kFilesInMemory = [] {
  std::error_code ignored;
  return std::filesystem::is_directory("/dev/shm", ignored) && setenv("TMPDIR", "/dev/shm", 0) == 0;
}();

}  // namespace l2l::testing
