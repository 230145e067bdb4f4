#include "eps/checkpoint/checkpoint_folders.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "eps/checkpoint/manifest.h"
#include "tests/eps/small_checkpoint.h"
#include "tests/support/memory_files.h"
#include "tests/support/parameter_state.h"
#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::TemporaryFolder;

TEST(CheckpointFolders, FindsTheNewestCompleteOne) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  for (const std::uint64_t step : {5u, 99'999'999u, 100'000'000u}) {
    save_checkpoint(folder.path(), run.store, at_step(step), 10);
  }
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-100000000") << "by number, not by name";
  EXPECT_EQ(newest_step(folder.path()), 100'000'000u);
  write_all(folder / "step-100000000/optimizer.safetensors", "short");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-99999999");
  write_all(folder / "step-99999999/manifest.json", "{}");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000005");
  EXPECT_EQ(find_checkpoint(folder / "step-00000005"), folder / "step-00000005") << "itself";
  EXPECT_SAYS(bad_input([&] { find_checkpoint(folder / "step-100000000"); }), "is not complete");
  fs::remove(folder / "step-00000005/model.safetensors");
  EXPECT_SAYS(bad_input([&] { find_checkpoint(folder.path()); }), "holds no complete checkpoint");
  EXPECT_SAYS(bad_input([&] { find_checkpoint(folder / "missing"); }), "missing: cannot be listed");
}

TEST(CheckpointFolders, AreInTheFolderOfARun) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path below = folder / "checkpoints";
  fs::create_directory(below);
  EXPECT_EQ(checkpoints_directory(folder.path()), folder.path()) << "none in either";
  const fs::path saved = save_checkpoint(below, run.store, at_step(3), 10);
  EXPECT_EQ(checkpoints_directory(folder.path()), below);
  EXPECT_EQ(checkpoints_directory(below), below);
  EXPECT_EQ(checkpoints_directory(saved), saved) << "a checkpoint itself";
  write_all(saved / "model.safetensors", "short");
  EXPECT_EQ(checkpoints_directory(folder.path()), below) << "also of damaged ones";
  save_checkpoint(folder.path(), run.store, at_step(1), 10);
  EXPECT_EQ(checkpoints_directory(folder.path()), folder.path()) << "its own come first";
  EXPECT_SAYS(bad_input([&] { checkpoints_directory(folder / "missing"); }), "missing: cannot be listed");
}

TEST(CheckpointFolders, IgnoresWhatOnlyLooksAlike) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path good = save_checkpoint(folder.path(), run.store, at_step(1), 10);
  for (const char* name :
       {"step-", "step-x", "step-2x", "step--2", "step-99999999999999999999", "other", ".step-00000009"}) {
    fs::copy(good, folder / name);
  }
  EXPECT_EQ(find_checkpoint(folder.path()), good);
}

TEST(CheckpointFolders, KeepsTheNewest) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  for (std::uint64_t step = 1; step <= 5; ++step) save_checkpoint(folder.path(), run.store, at_step(step), 2);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000004", "step-00000005"}));
  write_all(folder / "step-00000005/manifest.json", "");
  save_checkpoint(folder.path(), run.store, at_step(6), 2);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000004", "step-00000005", "step-00000006"}))
      << "one that cannot be loaded does not count";
  save_checkpoint(folder.path(), run.store, at_step(2), 1);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000002", "step-00000006"}))
      << "what was just saved stays, although older by step";
}

TEST(CheckpointFolders, SavingAStepTwiceReplacesIt) {
  const TemporaryFolder folder;
  TestRun run(small_layout()), target(small_layout());
  save_checkpoint(folder.path(), run.store, at_step(4), 2);
  fill(run.store);
  const fs::path path = save_checkpoint(folder.path(), run.store, at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
  load_checkpoint(path, target.store);
  EXPECT_EQ(bits(target.store), bits(run.store));
}

TEST(CheckpointFolders, OneThatIsBeingReadIsNotReplaced) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path path = save_checkpoint(folder.path(), run.store, at_step(4), 2);
  const auto save = [&] { save_checkpoint(folder.path(), run.store, at_step(4), 2); };
  {
    const ReadLock reader(path);
    EXPECT_NE(::l2l::testing::refusal(save).find("is being read by another program"), std::string::npos);
    EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
  }
  save();
}

TEST(CheckpointFolders, AReplacementInterruptedBetweenItsRenamesLosesNothing) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path path = save_checkpoint(folder.path(), run.store, at_step(4), 2);
  fs::rename(path, path.string() + ".old");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000004.old");
  save_checkpoint(folder.path(), run.store, at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
  fs::copy(path, path.string() + ".old");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000004") << "the new one once it is there";
  save_checkpoint(folder.path(), run.store, at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
}

// A process that is gone, as far as the system knows.
pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(CheckpointFolders, AnInterruptedSaveDisturbsNobodyAndIsClearedLater) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path good = save_checkpoint(folder.path(), run.store, at_step(1), 2);
  const fs::path stale = folder / (".step-00000002.tmp-" + std::to_string(dead_process()));
  const fs::path alive = folder / (".step-00000002.tmp-" + std::to_string(getppid()));
  fs::copy(good, stale);
  fs::remove(stale / kManifestName);
  fs::copy(good, alive);
  EXPECT_EQ(find_checkpoint(folder.path()), good);
  save_checkpoint(folder.path(), run.store, at_step(2), 2);
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(alive)) << "its process still writes";
  remove_stale(folder.path(), /*alone=*/true);
  EXPECT_FALSE(fs::exists(alive)) << "it cannot be of this directory's run";
}

TEST(CheckpointFolders, AFailedSaveLeavesTheOldOneAndNoRubbish) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  save_checkpoint(folder.path(), run.store, at_step(1), 1);
  write_all(folder / "file", "");
  EXPECT_THROW(save_checkpoint(folder / "file", run.store, at_step(2), 1), Error);
  EXPECT_THROW(save_checkpoint(folder / "file/below", run.store, at_step(2), 1), Error);
  EXPECT_THROW(save_checkpoint("/proc/l2l", run.store, at_step(2), 1), Error);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"file", "step-00000001"}));
}

// Saves steps 1, 2, 3, ... until it is killed; the bias of each is its step.
[[noreturn]] void save_forever(const fs::path& directory) {
  TestRun run(small_layout());
  for (std::uint64_t step = 1;; ++step) {
    std::vector<float> master(3, static_cast<float>(step)), moment1(3), moment2(3);
    write_state(run.store, 0, 1, {master, moment1, moment2});
    save_checkpoint(directory, run.store, at_step(step), 1);
  }
}

TEST(CheckpointFolders, AKilledSaverLeavesACompleteCheckpoint) {
  std::uint64_t least = 0;
  for (int kill_number = 0; kill_number < 12; ++kill_number) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) save_forever(folder.path());
    const auto saved = [&] { return bad_input([&] { find_checkpoint(folder.path()); }) == "(no BadInput)"; };
    for (int wait = 0; wait < 20'000 && !saved(); ++wait) usleep(500);
    usleep(static_cast<useconds_t>(713 * kill_number));  // all moments of a save, in the long run
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    TestRun loaded(small_layout());
    const SavedRun state = load_checkpoint(find_checkpoint(folder.path()), loaded.store);
    std::vector<float> master(3), moment1(3), moment2(3);
    read_state(loaded.store, 0, 1, {master, moment1, moment2});
    EXPECT_EQ(master[0], static_cast<float>(state.step)) << "all of one save";
    least = std::max(least, state.step);
  }
  EXPECT_GT(least, 1u) << "some were killed in a later save";
}

}  // namespace
}  // namespace l2l::eps
