// Advisory locks between processes, and between parts of one: flock(). The kernel frees them when the process ends,
// however it does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace l2l {

enum class LockKind : std::uint8_t { shared, exclusive };

// Movable; thread-bound. The lock is held until it is destroyed.
class FileLock {
 public:
  // Locks `file`, which must be there, without waiting. Nothing when another lock is in the way. Where there is no such
  // file, or its file system has no locks, the result is not held(). Throws std::system_error where the file cannot be
  // opened, or not be locked for another reason.
  static std::optional<FileLock> take(const std::filesystem::path& file, LockKind kind);
  // The same exclusively of a file that is made if it is not there. One that belongs to another user need not be
  // writable.
  static std::optional<FileLock> make(const std::filesystem::path& file);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  bool held() const { return descriptor_ >= 0; }
  // Whether `file` still leads to the file that is locked.
  bool is_at(const std::filesystem::path& file) const;
  // Replaces the content of a file that make() has locked, for whoever finds it locked. Failures are ignored.
  void write(const std::string& text) const;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  static std::optional<FileLock> lock(const std::filesystem::path& file, int descriptor, LockKind kind);

  int descriptor_ = -1;
};

}  // namespace l2l
