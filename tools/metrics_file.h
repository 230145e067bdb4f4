// The file of --metrics: one JSON object per step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "l2l/trainer.h"

namespace l2l::tools {

// Thread-bound.
class MetricsFile {
 public:
  // Keeps the lines of an existing file up to step `completed` (a resumed run writes the later ones again). An empty
  // path writes nothing. Throws BadInput.
  MetricsFile(std::filesystem::path path, std::int64_t completed);
  // Throws Error.
  void add(const StepReport& report);

 private:
  const std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace l2l::tools
