// Several threads on disks that are of one thread each.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/file_system.h"

namespace l2l::testing {

// Thread-safe. Hands each call on to the disk that `disk` names, within the calling thread; one at a time.
class LockedDisk : public FileSystem {
 public:
  explicit LockedDisk(std::function<FileSystem&()> disk) : disk_(std::move(disk)) {}

  int create(const Path& file) override { return locked().disk.create(file); }
  int open(const Path& path) override { return locked().disk.open(path); }
  std::int64_t write(int descriptor, std::span<const std::byte> bytes, Bytes offset) override {
    return locked().disk.write(descriptor, bytes, offset);
  }
  std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) override {
    return locked().disk.read(descriptor, bytes, offset);
  }
  int sync(int descriptor) override { return locked().disk.sync(descriptor); }
  int close(int descriptor) override { return locked().disk.close(descriptor); }
  int status(int descriptor, FileStatus& status) override { return locked().disk.status(descriptor, status); }
  int status(const Path& path, FileStatus& status) override { return locked().disk.status(path, status); }
  int list(const Path& folder, std::vector<std::string>& names) override { return locked().disk.list(folder, names); }
  int make_folder(const Path& folder) override { return locked().disk.make_folder(folder); }
  int rename(const Path& from, const Path& to) override { return locked().disk.rename(from, to); }
  int link(const Path& from, const Path& to) override { return locked().disk.link(from, to); }
  int remove(const Path& path) override { return locked().disk.remove(path); }

 private:
  struct Locked {
    std::unique_lock<std::mutex> lock;
    FileSystem& disk;
  };
  Locked locked() {
    std::unique_lock lock(mutex_);
    return {std::move(lock), disk_()};
  }

  std::mutex mutex_;
  const std::function<FileSystem&()> disk_;
};

}  // namespace l2l::testing
