// The progress of a run: on a terminal one line that is rewritten and fits, in a log a whole line every 30 s.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "l2l/trainer.h"
#include "tools/terminal.h"

namespace l2l::tools {

// Thread-bound.
class Progress {
 public:
  // Of a run of these options. Shows nothing when `quiet`. `first`: steps completed when the run begins.
  Progress(std::int64_t first, std::int64_t steps, const Options& options, bool quiet);

  void show(const StepReport& report);
  void begin_validation();
  void show_validation(std::int64_t step, double share);
  // The lines that follow end with its loss and metrics.
  void show_validation(const Evaluation& validation);
  // Ends the line that is rewritten, so that other messages can follow.
  void finish();

  std::int64_t count() const { return count_; }  // steps shown

  // Tokens per second since the start, without the first step (which warms up), where there is more than one.
  double tokens_per_second() const;

  // Median of step_ms over its prediction, of the latest steps (at most 256, never the first); nothing without a
  // prediction.
  std::optional<double> measured_over_predicted() const;

 private:
  static constexpr std::size_t kRatios = 256;

  void add_ratio(const StepReport& report);
  void show_skipped(const StepReport& report);
  std::vector<LinePart> parts(const StepReport& report, double elapsed) const;
  // "ETA 0:14"; before the first validation has shown what one takes: "ETA 0:04 and 6 validations".
  std::string time_left(std::int64_t step, double elapsed) const;
  // After so many completed steps, of which the others take about `seconds`.
  std::int64_t validations_left(std::int64_t step, double seconds) const;
  bool is_due();
  void show_line(std::vector<LinePart> line);

  const std::int64_t first_, steps_;
  const std::string unit_;
  const bool quiet_, terminal_, validates_;
  const std::int64_t validate_every_;  // steps; 0: at the end only
  const double validate_minutes_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_shown_{};
  std::int64_t count_ = 0;
  double tokens_ = 0, seconds_ = 0;              // of all steps but the first
  double first_tokens_ = 0, first_seconds_ = 0;  // of the first
  double weights_ms_ = 0, stash_ms_ = 0, update_ms_ = 0;
  std::array<double, kRatios> ratios_{};  // a ring
  std::size_t ratio_count_ = 0;
  std::string validation_;  // of the last one; empty before
  std::chrono::steady_clock::time_point validation_start_{};
  double validation_seconds_ = 0;  // of all that were made
  std::int64_t validations_ = 0;
  bool open_line_ = false;
};

// Prints a line on stderr, in place of a line of progress that stands there. From any thread.
void print_message(const std::string& message);

// The progress of reading or writing a model's weights: on a terminal one line that is rewritten, in a log nothing.
// Thread-bound: show() is called one at a time.
class ByteProgress {
 public:
  // `what`: "loading".
  ByteProgress(std::string what, bool quiet);
  ~ByteProgress();

  void show(std::uint64_t done, std::uint64_t all);

 private:
  const std::string what_;
  const bool quiet_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_shown_{};
  bool open_line_ = false;
};

}  // namespace l2l::tools
