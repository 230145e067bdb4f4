#include "core/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

namespace l2l {

namespace {

constexpr std::size_t kMostAtOnce = 1 << 30;  // the kernel moves at most 2 GiB a call

int translate(int result, const struct stat& from, FileStatus& to) {
  if (result != 0) return result;
  to.kind = S_ISREG(from.st_mode) ? FileKind::file : S_ISDIR(from.st_mode) ? FileKind::folder : FileKind::other;
  to.bytes = static_cast<Bytes>(from.st_size);
  return 0;
}

class PosixFileSystem final : public FileSystem {
 public:
  int create(const Path& file) override { return ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); }
  // O_NONBLOCK: a named pipe is to be refused, not waited for.
  int open(const Path& path) override { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

  std::int64_t write(int descriptor, std::span<const std::byte> bytes, Bytes offset) override {
    return pwrite(descriptor, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(offset));
  }
  std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) override {
    return pread(descriptor, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(offset));
  }
  int sync(int descriptor) override { return fsync(descriptor); }
  int close(int descriptor) override { return ::close(descriptor); }

  int status(int descriptor, FileStatus& status) override {
    struct stat found {};
    return translate(fstat(descriptor, &found), found, status);
  }
  int status(const Path& path, FileStatus& status) override {
    struct stat found {};
    return translate(stat(path.c_str(), &found), found, status);
  }
  int list(const Path& folder, std::vector<std::string>& names) override {
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
      names.push_back(entry->path().filename().string());
    errno = error.value();
    return error ? -1 : 0;
  }
  int make_folder(const Path& folder) override { return mkdir(folder.c_str(), 0777); }
  int rename(const Path& from, const Path& to) override { return std::rename(from.c_str(), to.c_str()); }
  int link(const Path& from, const Path& to) override { return ::link(from.c_str(), to.c_str()); }
  int remove(const Path& path) override { return std::remove(path.c_str()); }
};

PosixFileSystem posix;
std::atomic<FileSystem*> current = &posix;

}  // namespace

FileSystem& file_system() { return *current; }

FileSystemOverride::FileSystemOverride(FileSystem& other) { current = &other; }
FileSystemOverride::~FileSystemOverride() { current = &posix; }

}  // namespace l2l
