// The seam between eps/ and the disk. All that checkpoints do outside the process goes through it, so that tests can
// put a disk in its place that loses power or fails (tests/support/memory_disk.h, tests/support/failing_disk.h).
//
// It is one object of the process and not a parameter: between those who touch files (OutputFile, InputFile, the
// folders) and those who would have to choose (Trainer, l2l-train) lie a dozen functions that would only hand it on,
// and outside of tests there is nothing to choose. Users of files read better with files.h, whose every failure is an
// exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace l2l {

enum class FileKind : std::uint8_t { file, folder, other };

struct FileStatus {
  FileKind kind = FileKind::other;
  Bytes bytes = 0;  // of a file
};

// Thread-safe. Every function is the POSIX call of its kind: negative with errno set when it fails, a descriptor, a
// number of bytes (perhaps fewer than asked for) or 0 otherwise.
class FileSystem {
 public:
  using Path = std::filesystem::path;

  virtual ~FileSystem() = default;

  virtual int create(const Path& file) = 0;  // for writing; what was there is emptied
  virtual int open(const Path& path) = 0;    // for reading, or a folder for sync()
  virtual std::int64_t write(int descriptor, std::span<const std::byte> bytes, Bytes offset) = 0;
  virtual std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) = 0;
  // Waits until the data of a file, or the entries of a folder, are on the disk. Neither implies the other.
  virtual int sync(int descriptor) = 0;
  virtual int close(int descriptor) = 0;

  virtual int status(int descriptor, FileStatus& status) = 0;
  virtual int status(const Path& path, FileStatus& status) = 0;
  virtual int list(const Path& folder, std::vector<std::string>& names) = 0;
  virtual int make_folder(const Path& folder) = 0;
  virtual int rename(const Path& from, const Path& to) = 0;
  virtual int remove(const Path& path) = 0;  // a file or an empty folder
};

// The operating system's, unless a test has put another in its place. Thread-safe.
FileSystem& file_system();

// Puts `other` in its place for the life of this object. For tests: one at a time, while nobody else touches files.
class FileSystemOverride {
 public:
  explicit FileSystemOverride(FileSystem& other);
  ~FileSystemOverride();
  FileSystemOverride(const FileSystemOverride&) = delete;
  FileSystemOverride& operator=(const FileSystemOverride&) = delete;
};

}  // namespace l2l
