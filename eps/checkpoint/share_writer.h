// The part of a checkpoint that one rank writes, of one rank all of it: a file of weights and one of moments.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "eps/checkpoint/tensor_list.h"
#include "eps/group_memory.h"
#include "eps/parameter_store.h"
#include "formats/safetensors_writer.h"

namespace l2l::eps {

// One file with some parts of every parameter of a share's groups, written group by group in any order.
class PartsFile {
 public:
  PartsFile(const std::filesystem::path& path, const ParameterStore& store, std::span<const StatePart> parts,
            bool without_frozen, const WriterShare& share);

  // Adds the hash of each tensor to `hashes`.
  void write(GroupIndex group, std::span<float> buffer, std::map<std::string, std::uint64_t>& hashes);
  // Waits until the file is on the disk.
  void finish(Manifest& manifest);

 private:
  void write_master(GroupIndex group, std::size_t parameter, std::span<float> buffer,
                    std::map<std::string, std::uint64_t>& hashes);
  void write_moment(const RawMoment& moment, std::map<std::string, std::uint64_t>& hashes);
  void write_whole(std::span<const std::byte> elements, std::map<std::string, std::uint64_t>& hashes);

  const std::string name_;
  const ParameterStore& store_;
  const std::span<const StatePart> parts_;
  const bool without_frozen_;
  const TensorList list_;
  formats::SafetensorsWriter file_;
  std::size_t tensor_ = 0;  // the next to be written
};

// Thread-bound. Functions throw Error naming the file.
class ShareWriter {
 public:
  // New files in `folder` of the groups whose writer is rank `place`; `store` outlives this object.
  ShareWriter(const std::filesystem::path& folder, const ParameterStore& store, const SavedRun& state, Rank place = {});

  // A group that may be read, whole, and how often it was updated.
  void write(GroupIndex group, std::uint64_t updates);
  // When all are written: waits until the files are on the disk. What a manifest says of this part.
  Manifest finish();

 private:
  const ParameterStore& store_;
  Manifest manifest_;
  PartsFile model_, optimizer_;
  std::vector<float> buffer_;
};

}  // namespace l2l::eps
