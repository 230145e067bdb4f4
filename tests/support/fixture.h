// Reads the numbers of tests/fixtures. The header is parsed by our safetensors reader; elements of any type are read
// here, since the reader's own users need F32 alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace l2l::testing {

class Fixture {
 public:
  // `name` as in tests/fixtures: "gpt2_small.safetensors".
  explicit Fixture(const std::string& name) : file_(folder() / name) {}

  const formats::SafetensorsFile& file() const { return file_; }
  std::vector<float> floats(const std::string& tensor) const { return read<float>(tensor, "F32"); }
  std::vector<double> doubles(const std::string& tensor) const { return read<double>(tensor, "F64"); }
  std::vector<std::int32_t> integers(const std::string& tensor) const { return read<std::int32_t>(tensor, "I32"); }

 private:
  // Of the tree that was built, unless a build that was carried elsewhere says where they are.
  static std::filesystem::path folder() {
    const char* const elsewhere = std::getenv("L2L_TEST_FIXTURES");
    return elsewhere != nullptr ? elsewhere : L2L_FIXTURES;
  }

  template <typename T>
  std::vector<T> read(const std::string& name, const char* dtype) const {
    const formats::TensorEntry* tensor = file_.find(name);
    if (tensor == nullptr || tensor->dtype != dtype) throw std::runtime_error("no " + name + " of " + dtype);
    std::ifstream stream(file_.path(), std::ios::binary);
    std::uint64_t header = 0;
    stream.read(reinterpret_cast<char*>(&header), sizeof header);
    const auto bytes = static_cast<std::size_t>(tensor->end - tensor->begin);
    std::vector<T> values(bytes / sizeof(T));
    stream.seekg(static_cast<std::streamoff>(sizeof header + header + static_cast<std::uint64_t>(tensor->begin)));
    stream.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes));
    if (!stream) throw std::runtime_error("cannot read " + name);
    return values;
  }

  formats::SafetensorsFile file_;
};

}  // namespace l2l::testing
