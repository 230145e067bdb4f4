#include "core/files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/file_system.h"
#include "l2l/errors.h"
#include "tests/support/locked_disk.h"
#include "tests/support/meddled_disk.h"
#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l {
namespace {

namespace fs = std::filesystem;

using testing::MeddledDisk;
using testing::refusal;
using testing::TemporaryFolder;

TEST(MakeFolders, NamesThoseThatItMade) {
  const TemporaryFolder folder;
  std::vector<fs::path> made;
  make_folders(folder / "a", &made);
  make_folders(folder / "a/b/c", &made);
  make_folders(folder / "a/b/c", &made);
  EXPECT_EQ(made, (std::vector<fs::path>{folder / "a", folder / "a/b", folder / "a/b/c"}));
}

TEST(MakeFolders, AnotherProcessMakesTheSame) {
  const TemporaryFolder folder;
  const MeddledDisk disk([](const fs::path& path) { fs::create_directory(path); });
  std::vector<fs::path> made;
  make_folders(folder / "a/b", &made);
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  EXPECT_EQ(made, std::vector<fs::path>{});
}

TEST(MakeFolders, AnotherProcessRemovesAParent) {
  const TemporaryFolder folder;
  int left = 3;
  const MeddledDisk disk([&](const fs::path& path) {
    if (path.filename() == "b" && left-- > 0) fs::remove(path.parent_path());
  });
  make_folders(folder / "a/b");
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  EXPECT_LT(left, 0);
}

TEST(MakeFolders, EndsWhereAParentNeverStays) {
  const TemporaryFolder folder;
  const MeddledDisk disk([](const fs::path& path) {
    if (path.filename() == "b") fs::remove(path.parent_path());
  });
  EXPECT_EQ(refusal([&] { make_folders(folder / "a/b"); }),
            (folder / "a/b").string() + ": cannot be created: No such file or directory");
}

TEST(MakeFolders, AFileInTheWayIsAnError) {
  const TemporaryFolder folder;
  const MeddledDisk disk([](const fs::path& path) { std::ofstream(path) << "text"; });
  EXPECT_EQ(refusal([&] { make_folders(folder / "a"); }), (folder / "a").string() + ": cannot be created: File exists");
}

// The disk, but for calls that fail with one path, for what this process is or has.
class DeniedDisk final : public testing::LockedDisk {
 public:
  DeniedDisk(fs::path path, int error)
      : LockedDisk([&disk = file_system()]() -> FileSystem& { return disk; }),
        path_(std::move(path)),
        error_(error),
        in_use_(*this) {}
  int open(const Path& path) override { return path == path_ ? denied() : LockedDisk::open(path); }
  int list(const Path& folder, std::vector<std::string>& names) override {
    return folder == path_ ? denied() : LockedDisk::list(folder, names);
  }

 private:
  int denied() const {
    errno = error_;
    return -1;
  }
  const fs::path path_;
  const int error_;
  const FileSystemOverride in_use_;
};

// As an empty /scratch/$USER.
TEST(MakeFolders, InAFolderThatMayNotBeListed) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "user");
  const DeniedDisk disk(folder.path(), EACCES);
  EXPECT_EQ(refusal([&] { make_folders(folder / "user/a"); }), "(none)");
  EXPECT_TRUE(fs::is_directory(folder / "user/a"));
}

TEST(InputFile, WhatMayBeSoundIsNotCalledDamaged) {
  const TemporaryFolder folder;
  EXPECT_THROW(InputFile(folder / "missing"), CorruptFile);
  std::ofstream(folder / "file") << "text";
  const auto opened = [&](int error) {
    const DeniedDisk disk(folder / "file", error);
    const InputFile file(folder / "file");
  };
  for (const int error : {EACCES, EMFILE, ENFILE, ENOMEM}) {
    try {
      opened(error);
      ADD_FAILURE() << error;
    } catch (const CorruptFile& damage) {
      ADD_FAILURE() << damage.what();
    } catch (const BadInput& refused) {
      EXPECT_EQ(refused.place().file, (folder / "file").string());
    }
  }
  EXPECT_NE(refusal([&] { opened(EMFILE); }).find("ulimit -n"), std::string::npos);
  for (const int error : {EIO, ENODATA, ESTALE}) EXPECT_THROW(opened(error), CorruptFile);
}

TEST(GitLfs, APointerIsKnownByItsBeginning) {
  EXPECT_TRUE(is_git_lfs_pointer("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"));
  for (const char* const other : {"", "version", "version https://git-lfs.github.com/", "{\"version\": 1}"}) {
    EXPECT_FALSE(is_git_lfs_pointer(other)) << other;
  }
}

TEST(MakeFolders, ManyMakeAndRemoveTheSameParents) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const fs::path own = folder / "a/b/c" / std::to_string(t);
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(refusal([&] { make_folders(own); }), "(none)");
        EXPECT_TRUE(std::ofstream(own / "file"));
        std::error_code ignored;
        fs::remove(own / "file", ignored);
        for (fs::path path = own; path != folder.path(); path = path.parent_path()) fs::remove(path, ignored);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace l2l
