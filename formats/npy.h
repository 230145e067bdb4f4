// Writes arrays as NumPy reads them: format 1.0 of .npy, little-endian float32 in C order.
#pragma once

#include <filesystem>
#include <span>

#include "base/file_behind.h"
#include "core/files.h"

namespace l2l::formats {

// A file of shape [rows, columns]; elements may come in any order. It takes its place when it is finished.
// Thread-bound. Throws Error naming the file.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& file, std::int64_t rows, std::int64_t columns);

  // Writes elements from (row, column) on, which lie in that row.
  void write(std::int64_t row, std::int64_t column, std::span<const float> elements);
  // Call when every element is written. Waits until the file is on the disk.
  void finish();

 private:
  const std::filesystem::path name_;
  const FileBeside beside_;
  OutputFile file_;  // the one beside it
  std::int64_t columns_;
  Bytes begin_ = 0;  // of the elements
};

}  // namespace l2l::formats
