#include "eps/checkpoint/checkpoint_room.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/eps/fault_points.h"
#include "tests/support/meddled_disk.h"
#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

namespace fs = std::filesystem;

using ::l2l::testing::ArmedFaultPoint;
using ::l2l::testing::MeddledDisk;
using ::l2l::testing::refusal;
using ::l2l::testing::TemporaryFolder;

TEST(CheckRoom, ALookLeavesNothing) {
  const TemporaryFolder folder;
  check_room(folder / "a/b", {}, DirectoryUse::look);
  EXPECT_FALSE(fs::exists(folder / "a"));
  check_room(folder / "a/b", {}, DirectoryUse::stay);
  check_room(folder / "a/b", {}, DirectoryUse::look);
  EXPECT_TRUE(fs::exists(folder / "a/b"));
}

TEST(CheckRoom, ALookLeavesWhatAnotherProcessMade) {
  const TemporaryFolder folder;
  const MeddledDisk disk([](const fs::path& path) {
    if (path.filename() == "a") fs::create_directory(path);
  });
  check_room(folder / "a/b", {}, DirectoryUse::look);
  EXPECT_TRUE(fs::exists(folder / "a"));
  EXPECT_FALSE(fs::exists(folder / "a/b"));
}

// Those of later steps stay beside the run's own: it goes on from an earlier one, or is new.
TEST(CheckRoom, CountsWhatTheRunReplaces) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "step-00000003");
  CheckpointNeed need;
  need.size.model = fs::space(folder.path()).available / 5 * 3;  // room for one, not for two
  const auto look = [&](std::int64_t from_step) {
    need.from_step = from_step;
    return refusal([&] { check_room(folder.path(), need, DirectoryUse::look); });
  };
  EXPECT_EQ(look(3), "(none)");
  for (const std::int64_t step : {-1, 2}) EXPECT_NE(look(step).find("for 2 of them"), std::string::npos) << look(step);
}

// Two of each directory, which see theirs go away.
void look_many_at_once() {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto look = [&] { check_room(folder / "a/b" / std::to_string(t / 2), {}, DirectoryUse::look); };
        EXPECT_EQ(refusal(look), "(none)");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CheckRoom, ManyLookAtOnce) { look_many_at_once(); }

// Threads stand for processes of several machines that have the same number.
TEST(CheckRoom, ManyLookAtOnceWhereFilesHaveNames) {
  L2L_NEEDS_FAULT_POINTS();
  const ArmedFaultPoint named("checkpoint.no_nameless_files");
  look_many_at_once();
  const TemporaryFolder folder;
  const fs::path left = folder / (".step-0.tmp-" + std::to_string(getpid()));
  std::ofstream(left).flush();
  check_room(folder.path(), {}, DirectoryUse::look);
  EXPECT_TRUE(fs::exists(left));
}

}  // namespace
}  // namespace l2l::eps
