// The weights of a Hugging Face model directory: model.safetensors, or the files that model.safetensors.index.json
// names, {"metadata": {...}, "weight_map": {TENSOR: FILE}}. Treated as hostile, as every file of tensors is.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/safetensors.h"

namespace l2l::formats {

inline constexpr const char* kIndexName = "model.safetensors.index.json";

// "model-00002-of-00005.safetensors", for number 1 of 5; of one file "model.safetensors".
std::string shard_name(const std::string& stem, std::size_t number, std::size_t count);
// An index. `files`: by tensor. `bytes`: of all tensors.
std::string index_text(const std::map<std::string, std::string>& files, Bytes bytes);

struct ShardedTensor {
  const SafetensorsFile* file = nullptr;  // null: there is no such tensor
  const TensorEntry* entry = nullptr;
};

// Whether read_floats() reads it: F32, BF16 or F16.
bool is_float(const TensorEntry& tensor);
// Elements [first, first + size of `destination`) of a tensor of floats, which has them, in fp32. Throws CorruptFile,
// also, unless it is allowed, where one is not finite.
void read_floats(const ShardedTensor& tensor, std::int64_t first, std::span<float> destination,
                 bool allow_nonfinite = false);
// Throws CorruptFile naming file, tensor and element where one of `values`, elements of it from `first` on, is not
// finite.
void check_finite(const SafetensorsFile& file, const TensorEntry& tensor, std::int64_t first,
                  std::span<const float> values);

// Immutable; open files with their headers. Throws CorruptFile naming file, tensor and reason: what SafetensorsFile
// refuses, an index that names files outside of the directory or that are not there, a tensor in two files, or one
// whose file the index gets wrong; and BadInput where there are no weights, or PyTorch's pickles alone.
class SafetensorsShards {
 public:
  explicit SafetensorsShards(const std::filesystem::path& directory);
  // The files `names` of a directory, whatever their index says.
  SafetensorsShards(const std::filesystem::path& directory, std::span<const std::string> names);

  const std::filesystem::path& directory() const { return directory_; }
  ShardedTensor find(std::string_view name) const;
  const std::deque<SafetensorsFile>& files() const { return files_; }

 private:
  void open_index(const std::filesystem::path& index);
  void add_tensors();

  std::filesystem::path directory_;
  std::deque<SafetensorsFile> files_;
  std::unordered_map<std::string_view, ShardedTensor> tensors_;  // of several files; views of names in files_
};

}  // namespace l2l::formats
