// The JSON header of a safetensors file:
//   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace l2l::formats {

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // by offset, covering the data section without overlap or hole
  std::map<std::string, std::string> metadata;
};

// `data_bytes`: size of the data section. `file`: for messages. Takes time O(n log n) in the length of `json`. Throws
// CorruptFile.
SafetensorsHeader parse_safetensors_header(std::string_view json, Bytes data_bytes, const std::string& file);

// Bytes of an element of `dtype`; 0 if the format has no such type.
Bytes safetensors_element(std::string_view dtype);

// A name for messages: quoted, shortened, without control characters.
std::string show_name(std::string_view name);

}  // namespace l2l::formats
