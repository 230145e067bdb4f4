// The system calls on files, as an interface: tests put a disk in its place that loses power or fails
// (tests/support/memory_disk.h, tests/support/failing_disk.h). files.h, which throws on every failure, is easier to
// use.
//
// There is one object per process instead of a parameter, because a dozen functions would only pass it on, and outside
// of tests there is nothing to choose.
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

// Thread-safe. Results are those of the POSIX calls: negative with errno set on failure, else a descriptor, a number of
// bytes (perhaps fewer than asked for) or 0.
class FileSystem {
 public:
  using Path = std::filesystem::path;

  virtual ~FileSystem() = default;

  virtual int create(const Path& file) = 0;  // for writing; truncates
  virtual int open(const Path& path) = 0;    // for reading, or a folder for sync()
  virtual std::int64_t write(int descriptor, std::span<const std::byte> bytes, Bytes offset) = 0;
  virtual std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) = 0;
  // Waits until the data of a file or the entries of a folder are on the disk; neither implies the other.
  virtual int sync(int descriptor) = 0;
  virtual int close(int descriptor) = 0;

  virtual int status(int descriptor, FileStatus& status) = 0;
  virtual int status(const Path& path, FileStatus& status) = 0;
  virtual int list(const Path& folder, std::vector<std::string>& names) = 0;
  virtual int make_folder(const Path& folder) = 0;
  virtual int rename(const Path& from, const Path& to) = 0;
  virtual int link(const Path& from, const Path& to) = 0;  // `to`, which is not there, becomes a further name of a file
  virtual int remove(const Path& path) = 0;                // a file or an empty folder
};

// The operating system's, unless a test has replaced it. Thread-safe.
FileSystem& file_system();

// Replaces it by `other` for the life of this object. For tests: one at a time, while no other thread uses files.
class FileSystemOverride {
 public:
  explicit FileSystemOverride(FileSystem& other);
  ~FileSystemOverride();
  FileSystemOverride(const FileSystemOverride&) = delete;
  FileSystemOverride& operator=(const FileSystemOverride&) = delete;
};

}  // namespace l2l
