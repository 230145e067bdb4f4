// What a run writes down while it trains: the file of --metrics and an event file for TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/event_file.h"
#include "l2l/trainer.h"

namespace l2l::tools {

// One JSON object per step and per validation. Thread-bound.
class MetricsFile {
 public:
  // A run from step 0 keeps the file of an earlier one as FILE.earlier-N; one that goes on after `completed` steps
  // appends, and cuts off the lines of later steps, which it repeats. Empty paths write nothing. Throws BadInput, also
  // where the file is no metrics file.
  MetricsFile(std::filesystem::path path, std::int64_t completed, const std::filesystem::path& tensorboard);
  // False when it cannot be written: the run is then to be saved before failure() is thrown.
  bool add(const StepReport& report);
  bool add(std::int64_t step, const Trainer::Evaluation& validation);
  // What went wrong; empty when nothing did.
  const std::string& failure() const { return failure_; }

 private:
  bool add(const std::string& line);
  bool add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  const std::filesystem::path path_;
  std::ofstream file_;
  std::optional<formats::EventFile> events_;
  std::string failure_;
};

}  // namespace l2l::tools
