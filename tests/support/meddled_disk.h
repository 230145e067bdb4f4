// The file system while another process makes and removes folders in it.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "core/file_system.h"
#include "tests/support/locked_disk.h"

namespace l2l::testing {

// Stands in for file_system(), of which it calls `meddle` before each folder that is made. Thread-safe.
class MeddledDisk final : public LockedDisk {
 public:
  using Meddle = std::function<void(const std::filesystem::path& folder)>;

  explicit MeddledDisk(Meddle meddle)
      : LockedDisk([&disk = file_system()]() -> FileSystem& { return disk; }),
        meddle_(std::move(meddle)),
        in_use_(*this) {}

  int make_folder(const Path& folder) override {
    meddle_(folder);
    return LockedDisk::make_folder(folder);
  }

 private:
  const Meddle meddle_;
  const FileSystemOverride in_use_;
};

}  // namespace l2l::testing
