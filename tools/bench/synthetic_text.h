// Data for benchmarks to train on.
#pragma once

#include <filesystem>

namespace l2l::tools {

// A temporary file with a megabyte of reproducible pseudo-random text. The destructor removes it.
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
