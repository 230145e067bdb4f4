// A file system whose calls fail on purpose.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "core/file_system.h"

namespace l2l::testing {

struct DiskFault {
  std::size_t call = 0;  // from 1: which one fails; 0 for none
  int error = EIO;       // with what; 0 for a write that writes half of what it was given
  // All later ones fail as well, without effect: a disk that stays full, or, for those who come after, a process that
  // was killed at this call.
  bool for_good = false;
};

// Thread-bound. Hands the others on to `disk`.
class FailingDisk final : public FileSystem {
 public:
  FailingDisk(FileSystem& disk, DiskFault fault) : disk_(disk), fault_(fault) {}

  std::size_t calls() const { return calls_; }
  const std::string& failed() const { return failed_; }  // the function that failed first; empty when none did

  int create(const Path& file) override { return fails("create") ? -1 : disk_.create(file); }
  int open(const Path& path) override { return fails("open") ? -1 : disk_.open(path); }
  std::int64_t write(int descriptor, std::span<const std::byte> bytes, Bytes offset) override {
    if (fails("write")) return -1;
    const bool half = calls_ == fault_.call && bytes.size() > 1;
    return disk_.write(descriptor, half ? bytes.first(bytes.size() / 2) : bytes, offset);
  }
  std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) override {
    return fails("read") ? -1 : disk_.read(descriptor, bytes, offset);
  }
  int sync(int descriptor) override { return fails("sync") ? -1 : disk_.sync(descriptor); }
  int close(int descriptor) override {
    const int result = disk_.close(descriptor);  // the descriptor is gone in either case
    return fails("close") ? -1 : result;
  }
  int status(int descriptor, FileStatus& status) override {
    return fails("status") ? -1 : disk_.status(descriptor, status);
  }
  int status(const Path& path, FileStatus& status) override {
    return fails("status") ? -1 : disk_.status(path, status);
  }
  int list(const Path& folder, std::vector<std::string>& names) override {
    return fails("list") ? -1 : disk_.list(folder, names);
  }
  int make_folder(const Path& folder) override { return fails("make_folder") ? -1 : disk_.make_folder(folder); }
  int rename(const Path& from, const Path& to) override { return fails("rename") ? -1 : disk_.rename(from, to); }
  int link(const Path& from, const Path& to) override { return fails("link") ? -1 : disk_.link(from, to); }
  int remove(const Path& path) override { return fails("remove") ? -1 : disk_.remove(path); }

 private:
  bool fails(const char* function) {
    ++calls_;
    const bool now = calls_ == fault_.call || (fault_.for_good && fault_.call != 0 && calls_ > fault_.call);
    if (!now || fault_.error == 0) return false;
    if (failed_.empty()) failed_ = function;
    errno = fault_.error;
    return true;
  }

  FileSystem& disk_;
  const DiskFault fault_;
  std::size_t calls_ = 0;
  std::string failed_;
};

}  // namespace l2l::testing
