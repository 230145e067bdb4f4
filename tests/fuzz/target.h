// What the fuzz targets share. Each of them defines LLVMFuzzerTestOneInput(), which tests/fuzz/run links with libFuzzer
// and the test suite with main.cpp, which feeds it its seeds.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace l2l::fuzz {

// A file of this process, in memory where the system has a folder for that.
inline std::filesystem::path write_file(const std::string& name, const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path folder = [] {
    const std::filesystem::path memory = "/dev/shm";
    std::filesystem::path parent = std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    parent /= "l2l-fuzz-" + std::to_string(getpid());
    std::filesystem::create_directories(parent);
    return parent;
  }();
  std::ofstream(folder / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return folder / name;
}

}  // namespace l2l::fuzz
