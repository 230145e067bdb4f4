// DIRECTORY/best when power is lost: the best checkpoint so far, or the one before, is there, whole.
#include "runtime/best_checkpoint.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "tests/support/memory_disk.h"

namespace l2l::runtime {
namespace {

using testing::losses_after;
using testing::MemoryDisk;
using testing::PowerLoss;

const std::filesystem::path kDirectory = "/run";
constexpr const char* kFiles[] = {"manifest.json", "model.safetensors"};

Options options() {
  Options options;
  options.checkpoint.directory = kDirectory;
  options.checkpoint.best = "loss";
  return options;
}

// A folder of a checkpoint whose files hold `text`, on the disk.
std::filesystem::path save(const std::string& text) {
  const std::filesystem::path folder = kDirectory / ("step-" + text);
  make_folders(folder);
  for (const char* const name : kFiles) {
    OutputFile file(folder / name);
    file.write(text);
    file.finish();
  }
  sync_folder(folder);
  sync_folder(kDirectory);
  return folder;
}

// What the files of `best` hold after a run has begun to go on; empty where they do not hold the same.
std::string text_of_best() {
  const BestCheckpoint again(options(), /*data_hash=*/0, /*completed=*/1);
  std::string text;
  for (const char* const name : kFiles) {
    const std::filesystem::path file = kDirectory / "best" / name;
    if (!is_there(file)) return "";
    const std::string own = InputFile(file).text();
    if (!text.empty() && own != text) return "";
    text = own;
  }
  return text;
}

// A better checkpoint takes the place of the best one.
class BestOnADisk : public ::testing::Test {
 protected:
  BestOnADisk() {
    const FileSystemOverride use(disk_);
    const BestCheckpoint best(options(), 0, 0);
    best.keep(save("1"));
    const std::filesystem::path better = save("2");
    begin_ = disk_.operations();
    best.keep(better);
  }

  // The first loss of power that leaves something else; empty where there is none.
  std::string first_problem(std::size_t begin, std::optional<std::size_t> ignored_sync) const {
    for (std::size_t operations = begin; operations <= disk_.operations(); ++operations) {
      for (PowerLoss loss : losses_after(operations)) {
        loss.ignored_sync = ignored_sync;
        MemoryDisk after(disk_, loss);
        const FileSystemOverride use(after);
        const std::string text = text_of_best();
        const bool done = operations == disk_.operations();
        if (text != "2" && (done || text != "1")) return loss.to_string() + ": best holds \"" + text + "\"";
      }
    }
    return "";
  }

  MemoryDisk disk_;
  std::size_t begin_ = 0;
};

TEST_F(BestOnADisk, IsTheOldOrTheNewOneAtAnyMoment) { EXPECT_EQ(first_problem(begin_, {}), ""); }

TEST_F(BestOnADisk, EveryFsyncIsNeeded) {
  int count = 0;
  for (const std::size_t sync : disk_.syncs()) {
    if (sync < begin_) continue;
    EXPECT_NE(first_problem(sync + 1, sync), "") << "nobody misses " << disk_.describe(sync);
    ++count;
  }
  EXPECT_EQ(count, 2);
}

TEST_F(BestOnADisk, WhatKillsHaveLeftIsRemoved) {
  const FileSystemOverride use(disk_);
  for (const char* const name : {".best.tmp-list-1", ".best.tmp-1"}) OutputFile(kDirectory / name).finish();
  const BestCheckpoint again(options(), 0, 1);
  for (const std::filesystem::path& path : list_folder(kDirectory)) {
    EXPECT_FALSE(path.filename().string().starts_with(".best.")) << path;
  }
}

}  // namespace
}  // namespace l2l::runtime
