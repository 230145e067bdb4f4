#include "core/files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/file_system.h"
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
