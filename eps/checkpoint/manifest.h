// manifest.json of a checkpoint: everything that is not a tensor, and the sizes and hashes of its files.
//
//   {"format": "l2l-checkpoint", "version": 2, "step", "seed", "data_position", "data_hash": HEX, "config" (TOML),
//    "loss_scale", "good_steps" (with dynamic loss scaling alone),
//    "dropout_masks": 2 (where they are taken from bytes; otherwise from words: DropoutMasks),
//    "kernel_choices": {GPU AND LIBRARY: {PROBLEM: KERNEL}} (where some were chosen by time: core/kernel_choices.h),
//    "base": HEX (where frozen parameters come from files), "without_frozen": true (where they are in these alone),
//    "update_counts": {GROUP: n}, "files": {NAME: {"bytes": n, "header": HEX}}, "tensors": {NAME: HEX}, "xxh64": HEX}
//
// Hashes are XXH64 in 16 hexadecimal digits: of everything before the tensors of a file (of an index all of it), of a
// tensor's bytes, and of this text without its own hash. Together they cover every byte. The text of a manifest is
// unique; any other spelling of the same content is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/bytes.h"
#include "eps/checkpoint/checkpoint.h"

namespace l2l::eps {

inline constexpr const char* kManifestName = "manifest.json";

struct ManifestFile {
  Bytes bytes = 0;
  std::uint64_t header = 0;  // hash of what lies before the tensors
};

struct Manifest {
  SavedRun state;
  int ranks = 1;                                       // that have written it; follows from the names of files
  std::map<std::string, std::uint64_t> update_counts;  // by group
  std::map<std::string, ManifestFile> files;           // names without folder
  std::map<std::string, std::uint64_t> tensors;        // hashes, by name
};

// Whether `folder` has a manifest.json that is not another program's, a JSON object of another format or of none.
// Throws Error where that cannot be known.
bool has_manifest(const std::filesystem::path& folder);

std::string to_text(const Manifest& manifest);
// A new file in `folder`; waits until it is on the disk. Throws Error naming it.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// `text`: as to_text() gives it. Throws CorruptFile naming `file`, the field and the reason.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& file);
// Throws CorruptFile naming the file, the field and the reason.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace l2l::eps
