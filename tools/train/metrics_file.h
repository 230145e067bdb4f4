// The file of --metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/file_lock.h"
#include "l2l/trainer.h"

namespace l2l::tools {

// One JSON object per step, per validation and per record of the allocator. Thread-bound.
class MetricsFile {
 public:
  // A run from step 0 keeps the file of an earlier one as FILE.earlier-N; one that goes on after `completed` steps
  // appends, and cuts off the lines of later steps, which it repeats. An empty path writes nothing. Throws BadInput,
  // also where the file is no metrics file.
  MetricsFile(std::filesystem::path path, std::int64_t completed);
  // Throws BadInput where a run that still goes on writes to it.
  static void check_unused(const std::filesystem::path& path);

  // False when it cannot be written: the run is then to be saved before failure() is thrown.
  bool add(const StepReport& report);
  bool add(std::int64_t step, const Evaluation& validation);
  // What malloc() holds after `step` steps, where that is known.
  bool add_allocator(std::int64_t step);
  // What went wrong; empty when nothing did.
  const std::string& failure() const { return failure_; }

 private:
  bool add(const std::string& line);

  const std::filesystem::path path_;
  std::optional<FileLock> lock_;
  std::ofstream file_;
  std::string failure_;
};

}  // namespace l2l::tools
