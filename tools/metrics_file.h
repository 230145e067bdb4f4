// The file of --metrics: one JSON object per step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "l2l/trainer.h"

namespace l2l::tools {

// Thread-bound.
class MetricsFile {
 public:
  // Keeps the lines of an existing file up to step `completed` (a resumed run writes the later ones again). An empty
  // path writes nothing. Throws BadInput.
  MetricsFile(std::filesystem::path path, std::int64_t completed);
  // False when it cannot be written: the run is then to be saved before failure() is thrown.
  bool add(const StepReport& report);
  // What went wrong; empty when nothing did.
  const std::string& failure() const { return failure_; }

 private:
  const std::filesystem::path path_;
  std::ofstream file_;
  std::string failure_;
};

}  // namespace l2l::tools
