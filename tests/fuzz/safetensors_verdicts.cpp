// What SafetensorsFile makes of files, for safetensors_differential.py. Reads batches from standard input: a count
// (u32), then for each file its length (u32) and its bytes. Answers each file, after its whole batch is read, with a
// length (u32) and a text: "+" and for each tensor name, dtype, shape, begin and end, each ended by a NUL; or "-" and
// the reason for which it is refused.
#include <cstring>
#include <iostream>
#include <vector>

#include "formats/safetensors.h"
#include "l2l/errors.h"
#include "tests/fuzz/target.h"

namespace {

bool read_count(std::uint32_t& count) {
  return static_cast<bool>(std::cin.read(reinterpret_cast<char*>(&count), sizeof(count)));
}

std::string verdict(const std::vector<char>& bytes) {
  using namespace l2l;
  const auto path =
      fuzz::write_file("model.safetensors", reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  try {
    const formats::SafetensorsFile file(path);
    std::string text = "+";
    const auto add = [&](const std::string& field) { text.append(field).push_back('\0'); };
    for (const formats::TensorEntry& tensor : file.tensors()) {
      add(tensor.name);
      add(tensor.dtype);
      add(tensor.shape.to_string());
      add(std::to_string(tensor.begin));
      add(std::to_string(tensor.end));
    }
    return text;
  } catch (const CorruptFile& error) {
    return std::string("-") + error.what();
  }
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::uint32_t count = 0; read_count(count);) {
    std::vector<std::vector<char>> files(count);
    for (std::vector<char>& file : files) {
      std::uint32_t length = 0;
      if (!read_count(length)) return 1;
      file.resize(length);
      if (!std::cin.read(file.data(), length)) return 1;
    }
    for (const std::vector<char>& file : files) {
      const std::string text = verdict(file);
      const auto length = static_cast<std::uint32_t>(text.size());
      std::cout.write(reinterpret_cast<const char*>(&length), sizeof(length)) << text;
    }
    std::cout.flush();
  }
}
