// The safetensors format: u64 header length, JSON header, tensor data. Our own reader treats the file as hostile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/shape.h"
#include "core/files.h"

namespace l2l::formats {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  Shape shape;
  Bytes begin = 0, end = 0;  // within the data section
};

// A parsed and validated header over an open file. Immutable. Throws CorruptFile naming file, tensor and reason: sizes,
// overlaps, holes, unknown dtypes, duplicate names, unknown fields, ranks above 4, headers over 100 MB. Stricter than
// the reference implementation, so nothing that it refuses is accepted.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // nullptr when there is none.
  const TensorEntry* find(std::string_view name) const;
  // Reads an F32 tensor; `destination` has its length. Throws CorruptFile.
  void read(const TensorEntry& tensor, std::span<float> destination) const;
  // Its elements [first, first + size of `destination`), which lie within it.
  void read(const TensorEntry& tensor, std::int64_t first, std::span<float> destination) const;
  // The same of a tensor of any type, as they lie in the file.
  void read_raw(const TensorEntry& tensor, std::int64_t first, std::span<std::byte> destination) const;
  // XXH64 of a tensor's bytes. Throws CorruptFile.
  std::uint64_t hash(const TensorEntry& tensor) const {
    return file_.hash(data_start_ + tensor.begin, tensor.end - tensor.begin);
  }
  // XXH64 of all that lies before the tensors.
  std::uint64_t header_hash() const { return file_.hash(0, data_start_); }

 private:
  InputFile file_;
  Bytes data_start_ = 0;
  std::vector<TensorEntry> tensors_;
  std::vector<std::size_t> by_name_;  // indices of tensors_
  std::map<std::string, std::string> metadata_;
};

}  // namespace l2l::formats
