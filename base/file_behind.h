// Symbolic links stay where a file is replaced by renaming another over it.
#pragma once

#include <filesystem>

namespace l2l {

// Where the file `name` is, or would be made: behind a symbolic link, even one that leads nowhere yet.
inline std::filesystem::path file_behind(const std::filesystem::path& name) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::absolute(name);
  if (std::filesystem::is_symlink(path, ignored)) {
    path = path.parent_path() / std::filesystem::read_symlink(path, ignored);
  }
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path, ignored);
  return whole.empty() ? path : whole;
}

}  // namespace l2l
