#include "tests/support/memory_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace l2l::testing {

namespace {

int fail(int error) {
  errno = error;
  return -1;
}

constexpr char kGarbage = '\xA5';

const char* name_of(Fate fate) {
  constexpr const char* kNames[] = {"lost", "kept", "garbage", "random"};
  return kNames[static_cast<int>(fate)];
}

}  // namespace

std::string PowerLoss::to_string() const {
  return "power lost after operation " + std::to_string(operations) + ", entries " + name_of(entries) + ", data " +
         name_of(data) + ", seed " + std::to_string(seed);
}

// What a disk holds after a loss of power.
class MemoryDisk::Replay {
 public:
  Replay(const MemoryDisk& disk, const PowerLoss& loss)
      : log_(disk.log_), loss_(loss), random_(loss.seed), last_sync_(disk.nodes_.size(), 0), nodes_(disk.start_) {
    nodes_.resize(disk.nodes_.size());
    for (Node node = 0; node < nodes_.size(); ++node) nodes_[node].folder = disk.nodes_[node].folder;
    for (std::size_t i = 0; i < loss.operations; ++i) {
      if (log_[i].kind == Kind::sync && i != loss.ignored_sync) last_sync_[log_[i].node] = i + 1;
    }
  }

  std::vector<Content> run() {
    for (std::size_t i = 0; i < loss_.operations; ++i) {
      const Operation& operation = log_[i];
      if (operation.kind == Kind::sync) continue;
      if (synced(i)) {
        apply(operation, nodes_);
      } else if (operation.kind == Kind::entries) {
        if (survives(loss_.entries)) apply(operation, nodes_);
      } else {
        apply_data(operation);
      }
    }
    return std::move(nodes_);
  }

 private:
  bool synced(std::size_t i) const {
    const auto later = [&](Node node) { return last_sync_[node] > i; };
    const Operation& operation = log_[i];
    if (operation.kind != Kind::entries) return later(operation.node);
    return std::all_of(operation.entries.begin(), operation.entries.end(),
                       [&](const Entry& e) { return later(e.folder); });
  }

  bool survives(Fate fate) { return fate == Fate::kept || (fate == Fate::random && random_() % 2 == 0); }

  void apply_data(Operation operation) {
    const Fate fate = loss_.data;
    if (fate == Fate::garbage) std::fill(operation.data.begin(), operation.data.end(), kGarbage);
    if (fate == Fate::random && operation.kind == Kind::write) {
      const std::size_t whole = operation.data.size();
      const std::size_t length = random_() % (whole + 1);
      switch (random_() % 4) {
        case 0:
          break;
        case 1:
          operation.data.resize(length);
          break;
        case 2:
          std::fill(operation.data.begin() + static_cast<std::ptrdiff_t>(length), operation.data.end(), '\0');
          break;
        default:
          return;
      }
    }
    if (fate != Fate::lost) apply(operation, nodes_);
  }

  const std::vector<Operation>& log_;
  const PowerLoss loss_;
  std::mt19937_64 random_;
  std::vector<std::size_t> last_sync_;  // of each node, counted from 1
  std::vector<Content> nodes_;
};

std::vector<PowerLoss> losses_after(std::size_t operations) {
  constexpr int kRandomLosses = 6;
  std::vector<PowerLoss> all = {{operations, Fate::lost, Fate::lost},
                                {operations, Fate::kept, Fate::kept},
                                {operations, Fate::kept, Fate::lost},
                                {operations, Fate::kept, Fate::garbage},
                                {operations, Fate::lost, Fate::kept}};
  for (int i = 0; i < kRandomLosses; ++i)
    all.push_back({operations, Fate::random, Fate::random, operations * 1000 + static_cast<std::uint64_t>(i)});
  return all;
}

MemoryDisk::MemoryDisk() : start_{{.folder = true, .data = {}, .entries = {}}}, nodes_(start_) {}

MemoryDisk::MemoryDisk(const MemoryDisk& before, const PowerLoss& loss)
    : start_(Replay(before, loss).run()), nodes_(start_) {}

std::vector<std::size_t> MemoryDisk::syncs() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < log_.size(); ++i) {
    if (log_[i].kind == Kind::sync) found.push_back(i);
  }
  return found;
}

std::string MemoryDisk::describe(std::size_t operation) const {
  return "operation " + std::to_string(operation) + ", " + log_.at(operation).what;
}

void MemoryDisk::apply(const Operation& operation, std::vector<Content>& nodes) {
  for (const Entry& entry : operation.entries) {
    if (entry.node == kNone) {
      nodes[entry.folder].entries.erase(entry.name);
    } else {
      nodes[entry.folder].entries[entry.name] = entry.node;
    }
  }
  if (operation.kind == Kind::empty) nodes[operation.node].data.clear();
  if (operation.kind == Kind::write) {
    std::string& data = nodes[operation.node].data;
    data.resize(std::max<std::size_t>(data.size(), operation.offset + operation.data.size()));
    data.replace(operation.offset, operation.data.size(), operation.data);
  }
}

void MemoryDisk::record(Operation operation) {
  apply(operation, nodes_);
  log_.push_back(std::move(operation));
}

// kNone with errno set when there is nothing.
MemoryDisk::Node MemoryDisk::find(const Path& path) const {
  Node node = kRoot;
  for (const Path& part : path.relative_path()) {
    if (part.empty()) continue;  // after a last slash
    const Content& content = nodes_[node];
    const auto entry = content.entries.find(part.string());
    if (entry == content.entries.end()) {
      errno = content.folder ? ENOENT : ENOTDIR;
      return kNone;
    }
    node = entry->second;
  }
  return node;
}

// False with errno set when its folder does not exist.
bool MemoryDisk::find_place(const Path& path, Place& place) const {
  place = {find(path.parent_path()), path.filename().string(), kNone};
  if (place.folder == kNone) return false;
  if (!nodes_[place.folder].folder) return fail(ENOTDIR) == 0;
  const auto entry = nodes_[place.folder].entries.find(place.name);
  if (entry != nodes_[place.folder].entries.end()) place.node = entry->second;
  return true;
}

int MemoryDisk::open_node(Node node, const Path& path) {
  descriptors_[++next_descriptor_] = {node, path.string()};
  return next_descriptor_;
}

int MemoryDisk::create(const Path& file) {
  Place place;
  if (!find_place(file, place)) return -1;
  if (place.node == kNone) {
    nodes_.push_back({});
    place.node = nodes_.size() - 1;
    record({.kind = Kind::entries,
            .entries = {{place.folder, place.name, place.node}},
            .what = "create " + file.string()});
  } else {
    if (nodes_[place.node].folder) return fail(EISDIR);
    record({.kind = Kind::empty, .node = place.node, .what = "empty " + file.string()});
  }
  return open_node(place.node, file);
}

int MemoryDisk::open(const Path& path) {
  const Node node = find(path);
  return node == kNone ? -1 : open_node(node, path);
}

std::int64_t MemoryDisk::write(int descriptor, std::span<const std::byte> bytes, Bytes offset) {
  std::string data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  record({.kind = Kind::write,
          .node = opened(descriptor),
          .offset = offset,
          .data = std::move(data),
          .what = "write " + descriptors_.at(descriptor).second});
  return static_cast<std::int64_t>(bytes.size());
}

std::int64_t MemoryDisk::read(int descriptor, std::span<std::byte> bytes, Bytes offset) {
  const std::string& data = nodes_[opened(descriptor)].data;
  if (offset >= data.size()) return 0;
  const std::size_t count = std::min<std::size_t>(bytes.size(), data.size() - offset);
  std::memcpy(bytes.data(), data.data() + offset, count);
  return static_cast<std::int64_t>(count);
}

int MemoryDisk::sync(int descriptor) {
  const Node node = opened(descriptor);
  record({.kind = Kind::sync, .node = node, .what = "sync " + descriptors_.at(descriptor).second});
  return 0;
}

int MemoryDisk::close(int descriptor) { return descriptors_.erase(descriptor) == 1 ? 0 : fail(EBADF); }

int MemoryDisk::status(int descriptor, FileStatus& status) {
  const Content& content = nodes_[opened(descriptor)];
  status = {content.folder ? FileKind::folder : FileKind::file, content.data.size()};
  return 0;
}

int MemoryDisk::status(const Path& path, FileStatus& status) {
  const Node node = find(path);
  if (node == kNone) return -1;
  status = {nodes_[node].folder ? FileKind::folder : FileKind::file, nodes_[node].data.size()};
  return 0;
}

int MemoryDisk::list(const Path& folder, std::vector<std::string>& names) {
  const Node node = find(folder);
  if (node == kNone) return -1;
  if (!nodes_[node].folder) return fail(ENOTDIR);
  for (const auto& [name, child] : nodes_[node].entries) names.push_back(name);
  return 0;
}

int MemoryDisk::make_folder(const Path& folder) {
  Place place;
  if (!find_place(folder, place)) return -1;
  if (place.node != kNone) return fail(EEXIST);
  nodes_.push_back({.folder = true, .data = {}, .entries = {}});
  record({.kind = Kind::entries,
          .entries = {{place.folder, place.name, nodes_.size() - 1}},
          .what = "make folder " + folder.string()});
  return 0;
}

int MemoryDisk::rename(const Path& from, const Path& to) {
  Place source, target;
  if (!find_place(from, source) || !find_place(to, target)) return -1;
  if (source.node == kNone) return fail(ENOENT);
  if (target.node != kNone) {
    const bool folder = nodes_[source.node].folder;
    if (folder != nodes_[target.node].folder) return fail(folder ? ENOTDIR : EISDIR);
    if (!nodes_[target.node].entries.empty()) return fail(ENOTEMPTY);
  }
  record({.kind = Kind::entries,
          .entries = {{source.folder, source.name, kNone}, {target.folder, target.name, source.node}},
          .what = "rename " + from.string() + " to " + to.string()});
  return 0;
}

int MemoryDisk::link(const Path& from, const Path& to) {
  const Node node = find(from);
  Place target;
  if (node == kNone || !find_place(to, target)) return -1;
  if (nodes_[node].folder) return fail(EPERM);
  if (target.node != kNone) return fail(EEXIST);
  record({.kind = Kind::entries,
          .entries = {{target.folder, target.name, node}},
          .what = "link " + from.string() + " as " + to.string()});
  return 0;
}

int MemoryDisk::remove(const Path& path) {
  Place place;
  if (!find_place(path, place)) return -1;
  if (place.node == kNone) return fail(ENOENT);
  if (!nodes_[place.node].entries.empty()) return fail(ENOTEMPTY);
  record({.kind = Kind::entries, .entries = {{place.folder, place.name, kNone}}, .what = "remove " + path.string()});
  return 0;
}

}  // namespace l2l::testing
