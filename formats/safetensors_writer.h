// Writes a safetensors file whose tensors come in any order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/shape.h"
#include "core/files.h"

namespace l2l::formats {

struct TensorToWrite {
  std::string name;
  Shape shape;
  std::string dtype = "F32";
};

// A new file of tensors, which lie in it in the given order, without holes. Thread-bound. Every function throws Error
// naming the file.
class SafetensorsWriter {
 public:
  // Writes the header. Names are distinct.
  SafetensorsWriter(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                    const std::map<std::string, std::string>& metadata);

  // Elements from `first` on of the tensor, which has them, as they lie in the file.
  void write(std::size_t tensor, std::int64_t first, std::span<const std::byte> elements);
  // Every element must have been written. Waits until the file is on the disk.
  void finish() { file_.finish(); }

  Bytes bytes() const { return begins_.back(); }              // of the finished file
  std::uint64_t header_hash() const { return header_hash_; }  // XXH64 of all that lies before the tensors

 private:
  OutputFile file_;
  std::uint64_t header_hash_ = 0;
  std::vector<Bytes> begins_;    // of the tensors in the file; and the file's end
  std::vector<Bytes> elements_;  // bytes of one, by tensor
};

}  // namespace l2l::formats
