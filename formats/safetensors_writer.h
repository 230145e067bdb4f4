// Writes a safetensors file; the tensors' data may come in any order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/files.h"
#include "core/shape.h"

namespace l2l::formats {

struct TensorToWrite {
  std::string name;
  Shape shape;
  std::string dtype = "F32";
};

Bytes bytes_of(const TensorToWrite& tensor);

// Counts the bytes of the file that SafetensorsWriter makes of tensors that are added in its order.
class SafetensorsSize {
 public:
  explicit SafetensorsSize(const std::map<std::string, std::string>& metadata);
  void add(const TensorToWrite& tensor);
  Bytes header_text() const;  // with the spaces behind it
  Bytes bytes() const;

 private:
  Bytes header_, tensors_ = 0;
};

// A new file of tensors in the given order, without holes. Thread-bound. Every function throws Error naming the file.
class SafetensorsWriter {
 public:
  // Writes the header. Names must be distinct.
  SafetensorsWriter(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                    const std::map<std::string, std::string>& metadata);

  // Writes elements of tensor `tensor` from `first` on, which it must have, as they lie in the file.
  void write(std::size_t tensor, std::int64_t first, std::span<const std::byte> elements);
  // Call when every element is written. Waits until the file is on the disk.
  void finish() { file_.finish(); }

  Bytes bytes() const { return begins_.back(); }              // of the finished file
  std::uint64_t header_hash() const { return header_hash_; }  // XXH64 of everything before the tensors

 private:
  OutputFile file_;
  std::uint64_t header_hash_ = 0;
  std::vector<Bytes> begins_;    // of the tensors in the file, then the end of the file
  std::vector<Bytes> elements_;  // bytes of an element, by tensor
};

}  // namespace l2l::formats
