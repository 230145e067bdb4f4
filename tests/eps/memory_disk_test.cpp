// The disk in memory answers as the operating system does.
#include "tests/support/memory_disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "tests/support/temporary_folder.h"

namespace l2l::testing {
namespace {

using Path = std::filesystem::path;

// Does the same on any file system and writes down every answer. Below `root`, which exists.
class Transcript {
 public:
  Transcript(FileSystem& disk, Path root) : disk_(disk), root_(std::move(root)) {}

  void write(const char* file, const std::string& text, Bytes offset = 0) {
    const int descriptor = note("create", disk_.create(root_ / file));
    if (descriptor < 0) return;
    note("write", disk_.write(descriptor, std::as_bytes(std::span(text)), offset));
    note("sync", disk_.sync(descriptor));
    note("close", disk_.close(descriptor));
  }
  void read(const char* file, std::size_t bytes, Bytes offset = 0) {
    const int descriptor = note("open", disk_.open(root_ / file));
    if (descriptor < 0) return;
    FileStatus status;
    note("status", disk_.status(descriptor, status));
    show(status);
    std::string text(bytes, '?');
    note("read", disk_.read(descriptor, std::as_writable_bytes(std::span(text)), offset));
    lines_.push_back(text);
    note("close", disk_.close(descriptor));
  }
  void sync(const char* folder) {
    const int descriptor = note("open", disk_.open(root_ / folder));
    if (descriptor < 0) return;
    note("sync", disk_.sync(descriptor));
    note("close", disk_.close(descriptor));
  }
  void status(const char* path) {
    FileStatus status;
    if (note("status", disk_.status(root_ / path, status)) == 0) show(status);
  }
  void list(const char* folder) {
    std::vector<std::string> names;
    note("list", disk_.list(root_ / folder, names));
    std::sort(names.begin(), names.end());
    lines_.insert(lines_.end(), names.begin(), names.end());
  }
  void make_folder(const char* folder) { note("make", disk_.make_folder(root_ / folder)); }
  void rename(const char* from, const char* to) { note("rename", disk_.rename(root_ / from, root_ / to)); }
  void link(const char* from, const char* to) { note("link", disk_.link(root_ / from, root_ / to)); }
  void remove(const char* path) { note("remove", disk_.remove(root_ / path)); }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  int note(const char* call, std::int64_t result) {
    // One descriptor is as good as another.
    const bool opened = (call == std::string("open") || call == std::string("create")) && result >= 0;
    lines_.push_back(std::string(call) + " " + (opened ? "ok" : std::to_string(result)) +
                     (result < 0 ? " " + std::to_string(errno) : ""));
    return static_cast<int>(result);
  }
  void show(const FileStatus& status) {
    const Bytes bytes = status.kind == FileKind::file ? status.bytes : 0;
    lines_.push_back(std::to_string(static_cast<int>(status.kind)) + " " + std::to_string(bytes));
  }

  FileSystem& disk_;
  const Path root_;
  std::vector<std::string> lines_;
};

std::vector<std::string> transcript(FileSystem& disk, const Path& root) {
  Transcript t(disk, root);
  t.make_folder("a");
  t.make_folder("a");
  t.make_folder("no/such");
  t.write("a/file", "hello");
  t.write("a/file", "hi", 3);  // emptied first, with a hole
  t.read("a/file", 9);
  t.read("a/file", 2, 4);
  t.read("a/file", 2, 40);
  t.write("a", "text");
  t.write("no/file", "text");
  t.make_folder("a/file/below");
  t.status("a");
  t.status("a/file");
  t.status("a/none");
  t.status("a/file/below");
  t.read("none", 1);
  t.sync("a");
  t.sync("none");
  t.list("a");
  t.list("a/file");
  t.list("none");
  t.make_folder("b");
  t.make_folder("b/c");
  t.write("b/c/x", "x");
  t.rename("a", "b");       // not empty
  t.rename("b", "a/file");  // a folder onto a file
  t.rename("a/file", "b");  // a file onto a folder
  t.rename("none", "d");
  t.rename("b/c", "d");
  t.list("d");
  t.list("b");
  t.rename("a", "b");  // empty
  t.list("b");
  t.write("b/other", "12345");
  t.rename("b/other", "b/file");
  t.read("b/file", 9);
  t.link("b/file", "b/file");
  t.link("none", "b/none");
  t.link("b", "d/b");
  t.link("b/file", "no/file");
  t.link("b/file", "d/file");
  t.write("b/file", "both");
  t.remove("d/x");
  t.list("d");
  t.read("d/file", 9);
  t.remove("b");
  t.remove("none");
  t.remove("b/file");
  t.remove("b");
  t.list("");
  return t.lines();
}

TEST(MemoryDisk, AnswersAsTheOperatingSystemDoes) {
  const TemporaryFolder folder;
  MemoryDisk disk;
  disk.make_folder("/root");
  const auto answers = transcript(disk, "/root"), expected = transcript(file_system(), folder.path());
  ASSERT_EQ(answers.size(), expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << "answer " << i;
}

// A file and its name, each synced or not.
struct Synced {
  bool data, entry;
};

MemoryDisk one_file(Synced synced) {
  MemoryDisk disk;
  const int file = disk.create("/file");
  disk.write(file, std::as_bytes(std::span("text", 4)), 0);
  if (synced.data) disk.sync(file);
  disk.close(file);
  if (synced.entry) disk.sync(disk.open("/"));
  return disk;
}

// "" when there is none, else its length and first byte.
std::string file_after(const MemoryDisk& before, Fate entries, Fate data) {
  MemoryDisk disk(before, {before.operations(), entries, data});
  FileStatus status;
  if (disk.status("/file", status) != 0) return "";
  char first = '-';
  disk.read(disk.open("/file"), std::as_writable_bytes(std::span(&first, 1)), 0);
  return std::to_string(status.bytes) + first;
}

TEST(MemoryDisk, LosesWhatWasNotSynced) {
  EXPECT_EQ(file_after(one_file({true, true}), Fate::lost, Fate::lost), "4t");
  EXPECT_EQ(file_after(one_file({true, false}), Fate::lost, Fate::lost), "");
  EXPECT_EQ(file_after(one_file({true, false}), Fate::kept, Fate::lost), "4t");
  EXPECT_EQ(file_after(one_file({false, true}), Fate::lost, Fate::lost), "0-");
  EXPECT_EQ(file_after(one_file({false, true}), Fate::lost, Fate::kept), "4t");
  EXPECT_EQ(file_after(one_file({false, true}), Fate::lost, Fate::garbage), "4\xA5");
}

TEST(MemoryDisk, AnIgnoredSyncIsAsNone) {
  const MemoryDisk before = one_file({true, true});
  for (const std::size_t sync : before.syncs()) {
    MemoryDisk disk(before, {before.operations(), Fate::lost, Fate::lost, 0, sync});
    std::vector<std::string> names;
    disk.list("/", names);
    EXPECT_EQ(names.size(), sync == before.syncs().front() ? 1u : 0u);
  }
}

TEST(MemoryDisk, ARenameBetweenFoldersNeedsBoth) {
  const char* kSync[][2] = {{"/a", nullptr}, {"/b", nullptr}, {"/a", "/b"}};
  for (const auto& synced : kSync) {
    MemoryDisk disk;
    disk.make_folder("/a");
    disk.make_folder("/b");
    disk.create("/a/file");
    disk.sync(disk.open("/"));
    disk.sync(disk.open("/a"));
    disk.rename("/a/file", "/b/file");
    for (const char* folder : synced) {
      if (folder != nullptr) disk.sync(disk.open(folder));
    }
    MemoryDisk after(disk, {disk.operations(), Fate::lost, Fate::lost});
    FileStatus status;
    EXPECT_EQ(after.status("/b/file", status), synced[1] == nullptr ? -1 : 0);
    EXPECT_EQ(after.status("/a/file", status), synced[1] == nullptr ? 0 : -1);
  }
}

}  // namespace
}  // namespace l2l::testing
