// The folders of a checkpoint directory: names, completeness, and the atomic replacement of one by another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace l2l::eps {

struct CheckpointFolder {
  std::filesystem::path path;
  std::uint64_t step = 0;
  bool replaced = false;  // step-N.old
};

// "step-00000042"
std::string folder_name(std::uint64_t step);
// Hidden, in the same directory, with the number of this process in its name.
std::filesystem::path temporary_folder(const std::filesystem::path& directory, std::uint64_t step);

// All folders named like checkpoints, newest first, a replaced one after its successor. Throws BadInput when
// `directory` cannot be listed.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& directory);

// What is wrong with a checkpoint (no readable manifest, a file of another size); empty when it is complete.
std::string defect(const std::filesystem::path& folder);

// Renames the finished `temporary` to step-N of `directory`; at every moment the old or the new one exists.
std::filesystem::path publish(const std::filesystem::path& directory, const std::filesystem::path& temporary,
                              std::uint64_t step);

// Keeps the newest `keep` complete checkpoints and `newest`, removes the others, and what one of them has replaced.
// Logs what cannot be removed.
void prune(const std::filesystem::path& directory, const std::filesystem::path& newest, int keep);

// Removes temporary folders of processes that have ended. Logs what cannot be removed. `alone`: nobody but this process
// saves there, so that all are stale, whatever process or host they are of.
void remove_stale(const std::filesystem::path& directory, bool alone = false);

// Moves checkpoints of more than `steps` steps to a new folder `directory`/earlier-N and returns it; an empty path when
// there are none. At every moment each of them is whole in one of the two places; after the return the move survives a
// crash. Throws Error.
std::filesystem::path set_aside(const std::filesystem::path& directory, std::int64_t steps);

}  // namespace l2l::eps
