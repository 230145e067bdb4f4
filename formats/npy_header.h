// What NumPy writes before the elements of an array: .npy, versions 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/files.h"

namespace l2l::formats {

struct NpyHeader {
  std::string type;  // "<f4": byte order (< > |), kind (i, u, f, ..) and bytes of an element
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
  Bytes begin = 0;  // of the elements, which end with the file

  char kind() const { return type[1]; }
  Bytes element_bytes() const { return static_cast<Bytes>(type[2] - '0'); }
};

// Throws CorruptFile naming file and field where the header is damaged, or does not stand for as many bytes as follow
// it, or elements are no numbers of 1 to 8 bytes.
NpyHeader read_npy_header(const InputFile& file);

}  // namespace l2l::formats
