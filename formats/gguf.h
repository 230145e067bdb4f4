// Writes GGUF files (version 3, little-endian), which llama.cpp and its relatives read: metadata, then tensors. Source:
// the specification of the format in ggml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/bytes.h"
#include "core/files.h"
#include "core/shape.h"

namespace l2l::formats {

// Of a tensor's elements, by their numbers in files. q8_0: blocks of 32 neighbours in a row, each an f16 scale d and
// 32 int8 q, which stand for d q.
enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };

inline constexpr std::int64_t kGgufBlock = 32;  // elements of a block of q8_0

// "f32", "f16", "bf16" or "q8_0". Throws BadInput.
GgufType parse_gguf_type(const std::string& name);
const char* name_of(GgufType type);
// Of so many elements, for q8_0 whole blocks.
Bytes gguf_bytes(GgufType type, std::int64_t elements);

// Converts numbers to `type`; `bytes` has gguf_bytes() room. f16: to nearest, ties to even; bf16: to nearest, ties away
// (core/dtype.h); q8_0: d is the block's largest magnitude / 127, and q is rounded half away from zero. Returns the
// index of the first number beyond the type's range, or -1; it is then not converted.
std::ptrdiff_t convert_to_gguf(GgufType type, std::span<const float> values, std::span<std::byte> bytes);

using GgufValue = std::variant<bool, std::uint32_t, float, std::string, std::vector<bool>, std::vector<std::int32_t>,
                               std::vector<float>, std::vector<std::string>>;
// Keys and values in the order in which they are written. Keys are distinct.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

struct GgufTensor {
  std::string name;
  Shape shape;  // rows first, as everywhere here; files have the sizes the other way round
  GgufType type = GgufType::f32;
};

// A new file of metadata and tensors in the given order. Thread-bound. Every function throws Error naming the file.
class GgufWriter {
 public:
  // Writes all but the tensors' data. Names must be distinct, and rows of q8_0 whole blocks.
  GgufWriter(const std::filesystem::path& file, const GgufMetadata& metadata, std::span<const GgufTensor> tensors);

  // Writes numbers from element `first` on, for q8_0 whole blocks. Throws BadInput naming tensor and number where one
  // is beyond the range of the tensor's type. Returns the bytes written.
  Bytes write(std::size_t tensor, std::int64_t first, std::span<const float> values);
  // Call when every element is written. Waits until the file is on the disk.
  void finish() { file_.finish(); }

 private:
  OutputFile file_;
  std::vector<GgufTensor> tensors_;
  std::vector<Bytes> begins_;  // of the tensors in the file
  std::vector<std::byte> converted_;
};

// The size of the file that GgufWriter makes.
Bytes gguf_file_bytes(const GgufMetadata& metadata, std::span<const GgufTensor> tensors);

}  // namespace l2l::formats
