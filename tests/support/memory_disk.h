// A disk in memory that remembers the order in which everything was done to it, and can lose power after any operation.
//
// What a disk may hold then (POSIX, read strictly): the data of a file as far as fsync of the file has returned; names
// as far as fsync of their folder has returned; and of what came later anything: each change of names as a whole but in
// any order, data in any order, cut short, or as garbage. A rename between two folders needs fsync of both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/file_system.h"

namespace l2l::testing {

// What becomes of everything that was not synced.
enum class Fate : std::uint8_t { lost, kept, garbage, random };  // garbage: of data alone; files have their length

struct PowerLoss {
  std::size_t operations = 0;  // that were done before
  Fate entries = Fate::lost;
  Fate data = Fate::lost;
  std::uint64_t seed = 0;                     // of Fate::random
  std::optional<std::size_t> ignored_sync{};  // a sync() that did nothing

  std::string to_string() const;
};

// After so many operations: everything that may have become of what was not synced.
std::vector<PowerLoss> losses_after(std::size_t operations);

// Thread-bound.
class MemoryDisk final : public FileSystem {
 public:
  MemoryDisk();
  // The disk that `before` is after a loss of power. Everything on it is synced.
  MemoryDisk(const MemoryDisk& before, const PowerLoss& loss);

  // So far; those that change nothing do not count.
  std::size_t operations() const { return log_.size(); }
  std::vector<std::size_t> syncs() const;  // which of them are calls of sync()
  std::string describe(std::size_t operation) const;

  int create(const Path& file) override;
  int open(const Path& path) override;
  std::int64_t write(int descriptor, std::span<const std::byte> bytes, Bytes offset) override;
  std::int64_t read(int descriptor, std::span<std::byte> bytes, Bytes offset) override;
  int sync(int descriptor) override;
  int close(int descriptor) override;
  int status(int descriptor, FileStatus& status) override;
  int status(const Path& path, FileStatus& status) override;
  int list(const Path& folder, std::vector<std::string>& names) override;
  int make_folder(const Path& folder) override;
  int rename(const Path& from, const Path& to) override;
  int link(const Path& from, const Path& to) override;
  int remove(const Path& path) override;

 private:
  using Node = std::size_t;  // index of nodes_
  static constexpr Node kRoot = 0, kNone = static_cast<Node>(-1);

  struct Content {
    bool folder = false;
    std::string data;
    std::map<std::string, Node> entries;
  };
  // A name of a folder that from now on leads to `node`, or to nothing.
  struct Entry {
    Node folder;
    std::string name;
    Node node;
  };
  enum class Kind : std::uint8_t { entries, write, empty, sync };
  struct Operation {
    Kind kind;
    std::vector<Entry> entries{};  // changed at once
    Node node = kNone;             // that is written, emptied or synced
    Bytes offset = 0;
    std::string data{};
    std::string what;  // for messages
  };
  struct Place {
    Node folder = kNone;
    std::string name;
    Node node = kNone;
  };
  class Replay;

  Node find(const Path& path) const;
  bool find_place(const Path& path, Place& place) const;
  Node opened(int descriptor) const { return descriptors_.at(descriptor).first; }
  int open_node(Node node, const Path& path);
  void record(Operation operation);
  static void apply(const Operation& operation, std::vector<Content>& nodes);

  std::vector<Content> start_;  // as it was when it was made
  std::vector<Content> nodes_;  // as it looks now
  std::vector<Operation> log_;
  std::map<int, std::pair<Node, std::string>> descriptors_;  // with the name at which it was opened
  int next_descriptor_ = 1000;
};

}  // namespace l2l::testing
