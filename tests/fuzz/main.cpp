// Feeds a target the files of the folders that it is given, and what becomes of each of them when it is cut short or a
// byte of it is changed.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

void feed(std::vector<std::uint8_t> bytes) {
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  constexpr std::size_t kPlaces = 40;
  for (std::size_t i = 0; i < kPlaces && i < bytes.size(); ++i) {
    const std::size_t place = bytes.size() * i / kPlaces;
    LLVMFuzzerTestOneInput(bytes.data(), place);
    for (const std::uint8_t change : {0x01, 0x80, 0xff}) {
      std::vector<std::uint8_t> changed = bytes;
      changed[place] = static_cast<std::uint8_t>(changed[place] ^ change);
      LLVMFuzzerTestOneInput(changed.data(), changed.size());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    feed({std::istreambuf_iterator<char>(stream), {}});
  }
  std::cout << files.size() << " seeds\n";
  return files.empty() ? 1 : 0;
}
