#include "tools/progress.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tools/tables.h"
#include "tools/terminal.h"

namespace l2l::tools {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr double kTerminalInterval = 0.2, kLogInterval = 30;  // seconds
constexpr int kLogColumns = 1000;                             // all parts of a line

std::string clock_time(double seconds) {
  const long whole = static_cast<long>(seconds + 0.5);
  if (whole >= 3600) return print("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return print("%ld:%02ld", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::int64_t first, std::int64_t steps, const Options& options, bool quiet)
    : first_(first),
      steps_(steps),
      unit_(options.model.head == "custom" ? "samples" : "tokens"),
      quiet_(quiet),
      terminal_(rewrites_lines()),
      validates_(options.data.has_validation()),
      validate_every_(options.run.validate_every),
      validate_minutes_(options.run.validate_minutes) {}

void Progress::show(const StepReport& report) {
  double& tokens = count_ == 0 ? first_tokens_ : tokens_;
  double& seconds = count_ == 0 ? first_seconds_ : seconds_;
  tokens += static_cast<double>(report.tokens);
  seconds += report.step_ms * 1e-3;
  if (count_ > 0) add_ratio(report);
  ++count_;
  // What compute waited for weights while these waited for their update; prefetch hides the rest of that wait.
  const double update_ms = std::min(report.update_stall_ms, report.weight_stall_ms);
  weights_ms_ += report.weight_stall_ms - update_ms;
  stash_ms_ += report.stash_stall_ms;
  update_ms_ += update_ms;
  if (report.skipped) show_skipped(report);
  const bool due = is_due();
  if (quiet_ || !(due || count_ == 1 || report.step == steps_)) return;
  show_line(parts(report, duration<double>(steady_clock::now() - start_).count()));
}

bool Progress::is_due() {
  const double interval = terminal_ ? kTerminalInterval : kLogInterval;
  return duration<double>(steady_clock::now() - last_shown_).count() >= interval;
}

void Progress::show_line(std::vector<LinePart> line) {
  last_shown_ = steady_clock::now();
  if (terminal_) {
    rewrite_line(fit(std::move(line), terminal_columns()));
  } else {
    write_message(fit(std::move(line), kLogColumns) + "\n");
  }
  open_line_ = terminal_;
}

void Progress::begin_validation() { validation_start_ = steady_clock::now(); }

void Progress::show_validation(std::int64_t step, double share) {
  if (quiet_ || !is_due()) return;
  const double elapsed = duration<double>(steady_clock::now() - validation_start_).count();
  std::vector<LinePart> line = {
      {0, print("step %lld/%lld", static_cast<long long>(step), static_cast<long long>(steps_))},
      {1, print("validation %.0f%%", 100 * share)}};
  if (share > 0) line.push_back({2, "ETA " + clock_time(elapsed * (1 - share) / share)});
  show_line(std::move(line));
}

std::int64_t Progress::validations_left(std::int64_t step, double seconds) const {
  if (!validates_) return 0;
  const auto steps = static_cast<double>(steps_ - step);
  const double by_time = validate_minutes_ > 0 ? std::min(steps, seconds / (60 * validate_minutes_)) : 0;
  auto left = static_cast<std::int64_t>(by_time);
  // That of this step is still to come.
  if (validate_every_ > 0) left = std::max(left, (steps_ - 1) / validate_every_ - (step - 1) / validate_every_);
  return left + 1;  // the one at the end
}

std::string Progress::time_left(std::int64_t step, double elapsed) const {
  const double each = (elapsed - validation_seconds_) / static_cast<double>(step - first_);
  const double seconds = static_cast<double>(steps_ - step) * each;
  const std::int64_t validations = validations_left(step, seconds);
  if (validations == 0) return "ETA " + clock_time(seconds);
  if (validations_ == 0) {
    return "ETA " + clock_time(seconds) + print(" and %lld validation", static_cast<long long>(validations)) +
           (validations == 1 ? "" : "s");
  }
  return "ETA " + clock_time(seconds + static_cast<double>(validations) * validation_seconds_ /
                                           static_cast<double>(validations_));
}

// On a line of its own, which stays.
void Progress::show_skipped(const StepReport& report) {
  if (quiet_) return;
  finish();
  write_message(print("step %lld/%lld  skipped: gradients overflowed with loss scale %g; weights are unchanged\n",
                      static_cast<long long>(report.step), static_cast<long long>(steps_), report.loss_scale));
}

std::vector<LinePart> Progress::parts(const StepReport& report, double elapsed) const {
  const double total_ms = std::max(1e-9, 1e3 * (seconds_ + first_seconds_));
  const double waits = weights_ms_ + stash_ms_ + update_ms_;
  std::vector<LinePart> parts = {
      {0, print("step %lld/%lld", static_cast<long long>(report.step), static_cast<long long>(steps_))},
      {1, print("loss %.4f", report.loss)},
      {3, print("%.0f ", tokens_per_second()) + unit_ + "/s"},
      {2, time_left(report.step, elapsed)}};
  if (!validation_.empty()) parts.push_back({4, validation_});
  parts.push_back({5, milliseconds(report.step_ms) +
                          (report.predicted_ms ? " (predicted " + milliseconds(*report.predicted_ms) + ")" : "")});
  parts.push_back({6, print("compute %.0f%%", 100 * std::max(0.0, 1 - waits / total_ms))});
  parts.push_back({7, print("waits: weights %.1f%%, stash %.1f%%, update %.1f%%", 100 * weights_ms_ / total_ms,
                            100 * stash_ms_ / total_ms, 100 * update_ms_ / total_ms)});
  if (report.stream_drift) parts.push_back({6, print("drift %.1e", *report.stream_drift)});
  return parts;
}

void Progress::add_ratio(const StepReport& report) {
  if (report.predicted_ms) ratios_[ratio_count_++ % kRatios] = report.step_ms / *report.predicted_ms;
}

void Progress::show_validation(const Evaluation& validation) {
  validation_seconds_ += duration<double>(steady_clock::now() - validation_start_).count();
  ++validations_;
  validation_ = print("validation %.4f", validation.loss);
  for (const auto& [name, value] : validation.metrics) validation_ += " " + name + print(" %.4f", value);
}

std::optional<double> Progress::measured_over_predicted() const {
  if (ratio_count_ == 0) return std::nullopt;
  std::vector<double> ratios(ratios_.begin(), ratios_.begin() + std::min(ratio_count_, kRatios));
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

void Progress::finish() {
  if (open_line_) write_message("\n");
  open_line_ = false;
}

double Progress::tokens_per_second() const {
  if (seconds_ > 0) return tokens_ / seconds_;
  return first_seconds_ > 0 ? first_tokens_ / first_seconds_ : 0;
}

void print_message(const std::string& message) { write_message((rewrites_lines() ? "\r\033[K" : "") + message + "\n"); }

ByteProgress::ByteProgress(std::string what, bool quiet) : what_(std::move(what)), quiet_(quiet || !rewrites_lines()) {}

ByteProgress::~ByteProgress() {
  if (open_line_) write_message("\n");
}

void ByteProgress::show(std::uint64_t done, std::uint64_t all) {
  const steady_clock::time_point now = steady_clock::now();
  if (quiet_ || (done < all && duration<double>(now - last_shown_).count() < kTerminalInterval)) return;
  last_shown_ = now;
  const double share = all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 1;
  const double elapsed = duration<double>(now - start_).count();
  const std::string eta = clock_time(elapsed * (1 - share) / std::max(1e-9, share));
  rewrite_line(fit({{0, print("%s: %.0f%% of %.2f GB", what_.c_str(), 100 * share, 1e-9 * static_cast<double>(all))},
                    {2, print("%.2f GB/s", 1e-9 * static_cast<double>(done) / std::max(1e-9, elapsed))},
                    {1, "ETA " + eta}},
                   terminal_columns()));
  open_line_ = true;
}

}  // namespace l2l::tools
