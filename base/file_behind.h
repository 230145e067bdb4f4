// Symbolic links stay where a file is replaced by renaming another over it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

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

// A file that is written beside the one `name` and then takes its place: a reader sees the old file or the new one, and
// what was there stays where something fails. Removed with this object where it has not taken the place.
class FileBeside {
 public:
  explicit FileBeside(const std::filesystem::path& name)
      : name_(file_behind(name)), path_(name_.string() + ".tmp-" + std::to_string(getpid())) {}
  ~FileBeside() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::error_code take_place() const {
    std::error_code error;
    std::filesystem::rename(path_, name_, error);
    return error;
  }

 private:
  const std::filesystem::path name_, path_;
};

}  // namespace l2l
