// What benchmarks share: data to train on, and medians.
#pragma once

#include <filesystem>
#include <vector>

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

double median(std::vector<double> values);  // at least one; the upper one of two

}  // namespace l2l::tools
