#include "eps/checkpoint/checkpoint.h"

#include <algorithm>

#include "core/error_place.h"
#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

constexpr const char* kRunCheckpoints = "checkpoints";  // in the folder of a run (l2l-train --output)
constexpr Bytes kSmallChange = 2 * kMiB;                // hashing buffer, headers, manifest, a thread

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

std::string tensor_name(const std::string& parameter, StatePart part) {
  if (part == StatePart::master) return parameter;
  return parameter + (part == StatePart::moment1 ? ".moment1" : ".moment2");
}

Bytes checkpoint_buffer_bytes() { return static_cast<Bytes>(kPiece) * sizeof(float) + kSmallChange; }

std::filesystem::path checkpoints_directory(const std::filesystem::path& directory) {
  if (is_there(directory / kManifestName) || !list_checkpoints(directory).empty()) return directory;
  const std::filesystem::path below = directory / kRunCheckpoints;
  return is_folder(below) && !list_checkpoints(below).empty() ? below : directory;
}

std::vector<std::filesystem::path> find_checkpoints(const std::filesystem::path& directory, bool warn) {
  if (is_there(directory / kManifestName)) {
    const std::string reason = defect(directory);
    if (!reason.empty()) {
      throw BadInput("the checkpoint " + directory.string() + " is not complete: " + reason,
                     of_file(directory.string()));
    }
    return {directory};
  }
  std::vector<std::filesystem::path> complete;
  std::string defects;
  for (const CheckpointFolder& folder : list_checkpoints(directory)) {
    const std::string reason = defect(folder.path);
    if (reason.empty()) {
      complete.push_back(folder.path);
    } else if (complete.empty()) {
      defects += "; " + reason;
    }
  }
  if (complete.empty()) {
    throw BadInput(directory.string() + ": holds no complete checkpoint (step-...)" + defects +
                       folders_with_checkpoints(directory),
                   of_file(directory.string()));
  }
  if (warn && !defects.empty()) {
    log(LogLevel::warning, "using " + complete[0].string() + ": newer ones are not complete" + defects);
  }
  return complete;
}

std::uint64_t newest_step(const std::filesystem::path& directory) {
  const std::vector<CheckpointFolder> folders = list_checkpoints(directory);
  return folders.empty() ? 0 : folders.front().step;
}

std::filesystem::path find_checkpoint(const std::filesystem::path& directory) {
  return find_checkpoints(directory).front();
}

}  // namespace l2l::eps
