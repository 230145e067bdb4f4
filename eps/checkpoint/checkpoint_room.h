// Whether a directory can hold a run's checkpoints, found out before step 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "eps/checkpoint/tensor_list.h"

namespace l2l::eps {

// What a run will write.
struct CheckpointNeed {
  CheckpointSize size;
  int at_once = 2;  // checkpoints that exist at the same time at least: the new one beside the one that it replaces
  int at_most = 3;  // with all that are kept
  std::int64_t from_step = std::numeric_limits<std::int64_t>::max();  // those of later steps stay beside the run's own
};

enum class DirectoryUse : std::uint8_t { look, stay };

// Makes `directory` with its parents, and writes and removes a file in it. Throws BadInput naming the reason and the
// way out when that fails, when no file may become as large as a checkpoint's (RLIMIT_FSIZE), or when there is no room
// for `at_once` checkpoints, those up to `from_step` that are there counted. After DirectoryUse::look, and when it
// throws, what it made is gone, except folders in which another process has made something; with DirectoryUse::stay it
// warns when there is no room for `at_most`. Other processes may look at the same time.
void check_room(const std::filesystem::path& directory, const CheckpointNeed& need, DirectoryUse use);

class NewFolders;

// Of several ranks: a folder in `directory` by which the others find out whether they see what this one makes there.
// Ends with the object, as do, after DirectoryUse::look, the directories that it made.
class ProbeFolder {
 public:
  // Throws Error.
  ProbeFolder(const std::filesystem::path& directory, DirectoryUse use);
  ~ProbeFolder();
  std::string name() const { return folder_.filename().string(); }

 private:
  std::unique_ptr<NewFolders> made_;
  std::filesystem::path folder_;
};
// Throws BadInput with the way out where this rank does not see the probe of that name, cannot write there, or may not
// write files as large as a checkpoint's.
void check_probe(const std::filesystem::path& directory, const std::string& name, const CheckpointSize& size);

}  // namespace l2l::eps
