#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace l2l {

namespace {

constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;

[[noreturn]] void fail(const std::filesystem::path& file, const char* what, int error) {
  throw std::system_error(error, std::generic_category(), file.string() + ": " + what);
}

// For writing where that is allowed: NFS locks no other file exclusively.
int open_to_write(const std::filesystem::path& file, int further_flags = 0) {
  const int descriptor = open(file.c_str(), O_RDWR | kFlags | further_flags, 0666);
  const bool readable = descriptor < 0 && (errno == EACCES || errno == EPERM || errno == EROFS);
  return readable ? open(file.c_str(), O_RDONLY | kFlags) : descriptor;
}

}  // namespace

// `descriptor`: what open() has returned.
std::optional<FileLock> FileLock::lock(const std::filesystem::path& file, int descriptor, LockKind kind) {
  if (descriptor < 0 && errno != ENOENT && errno != ENOTDIR) fail(file, "cannot be opened", errno);
  if (descriptor < 0) return FileLock(-1);
  if (flock(descriptor, (kind == LockKind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return FileLock(descriptor);
  const int error = errno;
  close(descriptor);
  if (error == EWOULDBLOCK) return std::nullopt;
  // NFS gives ENOLCK without its lock service, and EBADF for a file that may only be read.
  for (const int none : {ENOLCK, EBADF, ENOSYS, EOPNOTSUPP, EINVAL}) {
    if (error == none) return FileLock(-1);
  }
  fail(file, "cannot be locked", error);
}

std::optional<FileLock> FileLock::take(const std::filesystem::path& file, LockKind kind) {
  const bool shared = kind == LockKind::shared;
  return lock(file, shared ? open(file.c_str(), O_RDONLY | kFlags) : open_to_write(file), kind);
}

std::optional<FileLock> FileLock::make(const std::filesystem::path& file) {
  return lock(file, open_to_write(file, O_CREAT), LockKind::exclusive);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (held()) close(descriptor_);
}

bool FileLock::is_at(const std::filesystem::path& file) const {
  struct stat locked {
  }, found{};
  return held() && fstat(descriptor_, &locked) == 0 && stat(file.c_str(), &found) == 0 &&
         locked.st_dev == found.st_dev && locked.st_ino == found.st_ino;
}

void FileLock::write(const std::string& text) const {
  if (!held() || ftruncate(descriptor_, 0) != 0) return;
  static_cast<void>(!pwrite(descriptor_, text.data(), text.size(), 0));
}

}  // namespace l2l
