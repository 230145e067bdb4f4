#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace l2l {

std::optional<FileLock> FileLock::lock(int descriptor, LockKind kind) {
  if (descriptor < 0) return FileLock(-1);
  if (flock(descriptor, (kind == LockKind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return FileLock(descriptor);
  const int error = errno;
  close(descriptor);
  return error == EWOULDBLOCK ? std::nullopt : std::optional(FileLock(-1));
}

std::optional<FileLock> FileLock::take(const std::filesystem::path& file, LockKind kind) {
  return lock(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), kind);
}

std::optional<FileLock> FileLock::make(const std::filesystem::path& file) {
  return lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666), LockKind::exclusive);
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
