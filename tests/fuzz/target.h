// What the fuzz targets share. Each of them defines LLVMFuzzerTestOneInput(), which tests/fuzz/run links with libFuzzer
// and the test suite with main.cpp, which feeds it its seeds.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/file_system.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace l2l::fuzz {

// The only files that there are, in memory: system calls would take half of the time of a small input. Descriptors are
// places in the list.
class FilesInMemory final : public FileSystem {
 public:
  // What `bytes` points to must stay there while the file is read.
  const Path& set(const char* name, std::span<const std::uint8_t> bytes) {
    for (File& file : files_) {
      if (file.name != name) continue;
      file.bytes = bytes;
      return file.path;
    }
    return files_.emplace_back(File{name, Path("/fuzz") / name, bytes}).path;
  }

  void clear() { files_.clear(); }

  int open(const Path& path) override {
    const auto found = std::find_if(files_.begin(), files_.end(),
                                    [&](const File& file) { return file.path.native() == path.native(); });
    return found == files_.end() ? refuse(ENOENT) : static_cast<int>(found - files_.begin());
  }
  std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) override {
    const std::span<const std::uint8_t> rest = bytes_of(descriptor).subspan(offset);
    const std::size_t count = std::min(bytes.size(), rest.size());
    if (count > 0) std::memcpy(bytes.data(), rest.data(), count);
    return static_cast<std::int64_t>(count);
  }
  int close(int /*descriptor*/) override { return 0; }
  int status(int descriptor, FileStatus& status) override {
    status = {FileKind::file, bytes_of(descriptor).size()};
    return 0;
  }
  int status(const Path& path, FileStatus& found) override {
    const int descriptor = open(path);
    return descriptor < 0 ? descriptor : status(descriptor, found);
  }

  int create(const Path& /*file*/) override { return refuse(EROFS); }
  std::int64_t write(int /*descriptor*/, std::span<const std::byte> /*bytes*/, Bytes /*offset*/) override {
    return refuse(EROFS);
  }
  int sync(int /*descriptor*/) override { return refuse(EROFS); }
  int list(const Path& /*folder*/, std::vector<std::string>& /*names*/) override { return refuse(ENOENT); }
  int make_folder(const Path& /*folder*/) override { return refuse(EROFS); }
  int rename(const Path& /*from*/, const Path& /*to*/) override { return refuse(EROFS); }
  int link(const Path& /*from*/, const Path& /*to*/) override { return refuse(EROFS); }
  int remove(const Path& /*path*/) override { return refuse(EROFS); }

 private:
  struct File {
    std::string name;
    Path path;
    std::span<const std::uint8_t> bytes;
  };

  static int refuse(int error) {
    errno = error;
    return -1;
  }
  std::span<const std::uint8_t> bytes_of(int descriptor) const {
    return files_[static_cast<std::size_t>(descriptor)].bytes;
  }

  std::vector<File> files_;
};

inline FilesInMemory& files_in_memory() {
  static FilesInMemory files;
  static const FileSystemOverride in_memory(files);
  return files;
}

// A file of these bytes, which must outlive its being read, for what reads by file_system().
inline std::filesystem::path write_file(const char* name, const std::uint8_t* data, std::size_t size) {
  return files_in_memory().set(name, {data, size});
}

}  // namespace l2l::fuzz
