// Reads safetensors files: u64 header length, JSON header, tensor data. The file is treated as hostile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/files.h"
#include "core/shape.h"

namespace l2l::formats {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  Shape shape;
  Bytes begin = 0, end = 0;  // within the data section
};

// An open file with its parsed and validated header. Immutable. Throws CorruptFile naming file, tensor and reason for
// wrong sizes, overlaps, holes, unknown dtypes or fields, duplicate names, ranks above 8 and headers over 100 MB:
// everything that the reference implementation refuses, and more.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // nullptr if there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  // Reads an F32 tensor; `destination` has its length.
  void read(const TensorEntry& tensor, std::span<float> destination) const;
  // Reads elements [first, first + size of `destination`) of an F32 tensor, which has them.
  void read(const TensorEntry& tensor, std::int64_t first, std::span<float> destination) const;
  // Reads the same number of bytes as `destination` has, from element `first` on, of a tensor of any type.
  void read_raw(const TensorEntry& tensor, std::int64_t first, std::span<std::byte> destination) const;
  // XXH64 of a tensor's bytes.
  std::uint64_t hash(const TensorEntry& tensor) const {
    return file_.hash(data_start_ + tensor.begin, tensor.end - tensor.begin);
  }
  // Of some of them, from all parts of the tensor, at most 64 KiB.
  std::uint64_t hash_of_samples(const TensorEntry& tensor) const;
  // XXH64 of everything before the tensors.
  std::uint64_t header_hash() const { return file_.hash(0, data_start_); }

 private:
  InputFile file_;
  Bytes data_start_ = 0;
  std::vector<TensorEntry> tensors_;
  std::vector<std::size_t> by_name_;  // indices of tensors_
  std::map<std::string, std::string> metadata_;
};

}  // namespace l2l::formats
