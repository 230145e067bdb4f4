// What benchmarks share: data to train on.
#pragma once

#include <filesystem>

namespace l2l::tools {

// A file with a megabyte of reproducible bytes; what they say does not matter here. Removed by the destructor.
class SyntheticText {
 public:
  SyntheticText();
  ~SyntheticText();
  SyntheticText(const SyntheticText&) = delete;
  SyntheticText& operator=(const SyntheticText&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace l2l::tools
