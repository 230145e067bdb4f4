#include "eps/checkpoint/checkpoint_room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/error_place.h"
#include "core/fault_point.h"
#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDirectoryKey = "checkpoint.directory";

std::string named(const fs::path& directory) { return std::string(kDirectoryKey) + " " + directory.string() + ": "; }

}  // namespace

// Removes those of the folders it has made that are empty, unless it is told to keep them.
class NewFolders {
 public:
  NewFolders() = default;
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;
  ~NewFolders() {
    std::error_code ignored;
    for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
  }
  void make(const fs::path& directory) { make_folders(directory, &made_); }
  void keep() { made_.clear(); }

 private:
  std::vector<fs::path> made_;  // each behind its parents
};

namespace {

// A new file there without a name, which no death leaves behind. -1: not possible.
int open_nameless(const fs::path& directory) {
  const bool can = !fault_point("checkpoint.no_nameless_files");
  const int file = can ? ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
  if (file >= 0) return file;
  // Where the file system has no such files: one that loses its name at once. The names of saves begin so, too; what
  // a crash leaves of them is cleared by the next save. A process of another machine may have the same number.
  constexpr int kMostNames = 1000;
  int named = -1, error = EEXIST;
  for (int i = 0; i < kMostNames && error == EEXIST; ++i) {
    const fs::path path = directory / (".step-" + std::to_string(i) + ".tmp-" + std::to_string(getpid()));
    named = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    error = named >= 0 ? 0 : errno;
    if (named >= 0) ::unlink(path.c_str());
  }
  errno = error;
  return named;
}

// False where the directory is not there. Throws Error.
bool write_and_remove(const fs::path& directory) {
  constexpr std::string_view kText = "probe";
  const int file = open_nameless(directory);
  if (file < 0 && errno == ENOENT) return false;
  const bool written = file >= 0 && ::write(file, kText.data(), kText.size()) == static_cast<ssize_t>(kText.size());
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!written) throw Error("a file there cannot be written: " + std::string(std::strerror(error)));
  return true;
}

void check_writable(const fs::path& directory, NewFolders& made) {
  constexpr int kMostAttempts = 100;  // another run that looks removes what it made, which may be this very directory
  try {
    for (int attempt = 1; attempt <= kMostAttempts; ++attempt) {
      made.make(directory);
      if (write_and_remove(directory)) return;
    }
    throw Error("another process removes it again and again");
  } catch (const Error& error) {
    throw BadInput(named(directory) + "cannot hold checkpoints: " + error.what() + "; set another directory",
                   of_file(directory.string(), kDirectoryKey));
  }
}

void check_file_size(const fs::path& directory, const CheckpointSize& size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size.largest) return;
  throw BadInput(named(directory) + "a checkpoint has a file of " + format_bytes(size.largest) +
                     ", but files of this " + "process may have " + format_bytes(limit.rlim_cur) +
                     "; raise the limit (ulimit -f)",
                 of_file(directory.string(), kDirectoryKey));
}

// Those that the run's own will replace, complete or not: both have their room already. None where another run has just
// removed the directory again.
int count_checkpoints(const fs::path& directory, std::int64_t from_step) {
  try {
    const std::vector<CheckpointFolder> folders = list_checkpoints(directory);
    return static_cast<int>(std::ranges::count_if(
        folders, [&](const auto& folder) { return static_cast<std::int64_t>(folder.step) <= from_step; }));
  } catch (const BadInput&) {
    return 0;
  }
}

void check_free(const fs::path& directory, const CheckpointNeed& need, DirectoryUse use) {
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (error) return;
  const int there = count_checkpoints(directory, need.from_step);
  const auto bytes = [&](int checkpoints) {
    return need.size.bytes() * static_cast<Bytes>(std::max(1, checkpoints - there));
  };
  const std::string text =
      format_bytes(space.available) + " are free, a checkpoint has " + format_bytes(need.size.bytes());
  if (bytes(need.at_once) > space.available) {
    throw BadInput(named(directory) + text + ": for " + std::to_string(std::max(1, need.at_once - there)) +
                       " of them, short by " + format_bytes(bytes(need.at_once) - space.available) +
                       "; make room, or set another directory",
                   of_file(directory.string(), kDirectoryKey));
  }
  if (use == DirectoryUse::stay && bytes(need.at_most) > space.available) {
    log(LogLevel::warning, named(directory) + text + ": checkpoint.keep and checkpoint.best need up to " +
                               std::to_string(need.at_most) + " at a time, short by " +
                               format_bytes(bytes(need.at_most) - space.available) +
                               "; make room, or lower checkpoint.keep");
  }
}

}  // namespace

ProbeFolder::ProbeFolder(const fs::path& directory, DirectoryUse use)
    : made_(std::make_unique<NewFolders>()), folder_(temporary_folder(directory, 0)) {
  remove_folder(folder_);
  made_->make(folder_);
  if (use == DirectoryUse::stay) made_->keep();
}

ProbeFolder::~ProbeFolder() {
  std::error_code ignored;  // the next save clears what stays
  fs::remove_all(folder_, ignored);
}

void check_probe(const fs::path& directory, const std::string& name, const CheckpointSize& size) {
  if (!is_folder(directory / name)) {
    throw BadInput(named(directory) +
                       "what rank 0 makes there is not seen here, but every process writes its part of "
                       "a checkpoint there; set a directory on a disk that all of them share",
                   of_file(directory.string(), kDirectoryKey));
  }
  NewFolders made;
  check_writable(directory / name, made);
  check_file_size(directory, size);
}

void check_room(const fs::path& directory, const CheckpointNeed& need, DirectoryUse use) {
  NewFolders made;
  check_writable(directory, made);
  check_file_size(directory, need.size);
  check_free(directory, need, use);
  if (use == DirectoryUse::stay) made.keep();
}

}  // namespace l2l::eps
