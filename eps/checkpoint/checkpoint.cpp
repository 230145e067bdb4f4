#include "eps/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstdio>

#include "core/error_place.h"
#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "formats/safetensors_shards.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

constexpr const char* kRunCheckpoints = "checkpoints";  // in the folder of a run (l2l-train --output)
constexpr const char* kNoneIsSound = "; restore one from a copy, or begin a new run";
constexpr Bytes kSmallChange = 2 * kMiB;  // hashing buffer, headers, manifest, a thread
constexpr const char* kModelStem = "model";
constexpr const char* kOptimizerStem = "optimizer";

std::string name_of(const char* stem, int rank, int ranks) {
  return formats::shard_name(stem, static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks));
}

std::vector<std::string> names_of(const char* stem, int ranks) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(name_of(stem, rank, ranks));
  return names;
}

// "; there are some in a, b": the folders within `directory` that hold checkpoints; empty: none does.
std::string folders_with_checkpoints(const std::filesystem::path& directory) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    try {
      if (!list_checkpoints(entry->path()).empty()) found.push_back(entry->path().string());
    } catch (const BadInput&) {  // no folder, or one that may not be read
    }
  }
  std::sort(found.begin(), found.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kMost); ++i) {
    text += (i == 0 ? "; there are some in " : ", ") + found[i];
  }
  return text + (found.size() > kMost ? ", ..." : "");
}

}  // namespace

std::string model_name(int rank, int ranks) { return name_of(kModelStem, rank, ranks); }
std::string optimizer_name(int rank, int ranks) { return name_of(kOptimizerStem, rank, ranks); }
std::vector<std::string> model_names(int ranks) { return names_of(kModelStem, ranks); }
std::vector<std::string> optimizer_names(int ranks) { return names_of(kOptimizerStem, ranks); }

// A name is one that would be made of the numbers in it.
std::optional<int> ranks_of_name(const std::string& name) {
  if (name == kModelName || name == kOptimizerName) return 1;
  int number = 0, ranks = 0;
  const std::size_t dash = name.find('-');
  if (dash == std::string::npos || std::sscanf(name.c_str() + dash, "-%5d-of-%5d", &number, &ranks) != 2) return {};
  if (ranks < 2 || ranks > kMostSummands || number < 1 || number > ranks) return {};
  if (name != model_name(number - 1, ranks) && name != optimizer_name(number - 1, ranks)) return {};
  return ranks;
}

std::string tensor_name(const std::string& parameter, StatePart part) {
  if (part == StatePart::master) return parameter;
  return parameter + (part == StatePart::moment1 ? ".moment1" : ".moment2");
}

Bytes checkpoint_buffer_bytes() { return static_cast<Bytes>(kPiece) * sizeof(float) + kSmallChange; }

std::filesystem::path checkpoints_directory(const std::filesystem::path& directory) {
  if (has_manifest(directory) || !list_checkpoints(directory).empty()) return directory;
  const std::filesystem::path below = directory / kRunCheckpoints;
  return is_folder(below) && !list_checkpoints(below).empty() ? below : directory;
}

std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& directory, bool warn) {
  if (has_manifest(directory)) {
    const std::string reason = defect(directory);
    if (!reason.empty()) {
      throw BadInput("the checkpoint " + directory.string() + " is not complete: " + reason,
                     of_file(directory.string()));
    }
    return {directory};
  }
  std::vector<std::filesystem::path> complete;
  std::string defects;
  const std::vector<CheckpointFolder> folders = list_checkpoints(directory);
  for (const CheckpointFolder& folder : folders) {
    std::string reason;
    try {
      reason = defect(folder.path);
    } catch (const BadInput& unread) {
      if (complete.empty()) throw;  // it may be the newest that is sound
      reason = unread.what();
    }
    if (reason.empty()) {
      complete.push_back(folder.path);
    } else if (complete.empty()) {
      defects += "; " + reason;
    }
  }
  if (complete.empty()) {
    const std::string tried =
        folders.empty() ? "" : " among " + std::to_string(folders.size()) + defects + kNoneIsSound;
    throw BadInput(
        directory.string() + ": holds no complete checkpoint (step-...)" + tried + folders_with_checkpoints(directory),
        of_file(directory.string()));
  }
  if (warn && !defects.empty()) {
    log(LogLevel::warning, "using " + complete[0].string() + ": newer ones are not complete" + defects);
  }
  return complete;
}

CorruptFile none_is_sound(const std::vector<std::filesystem::path>& folders, const CorruptFile& error) {
  if (folders.size() == 1) return error;
  return {folders.front().parent_path().string(), "none of its " + std::to_string(folders.size()) +
                                                      " checkpoints can be loaded, the last one for " + error.what() +
                                                      kNoneIsSound};
}

std::uint64_t newest_step(const std::filesystem::path& directory) {
  const std::vector<CheckpointFolder> folders = list_checkpoints(directory);
  return folders.empty() ? 0 : folders.front().step;
}

std::filesystem::path find_checkpoint(const std::filesystem::path& directory) {
  return find_checkpoints(directory).front();
}

}  // namespace l2l::eps
