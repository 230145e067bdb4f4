#include "tools/bench/synthetic_text.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace l2l::tools {

SyntheticText::SyntheticText()
    : path_(std::filesystem::temp_directory_path() / ("l2l-bench-" + std::to_string(getpid()) + ".txt")) {
  std::ofstream file(path_, std::ios::binary);
  std::uint32_t state = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 1664525u + 1013904223u;
    file.put(static_cast<char>(32 + (state >> 24) % 95));
  }
}

SyntheticText::~SyntheticText() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace l2l::tools
