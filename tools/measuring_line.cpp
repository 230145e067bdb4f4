#include "tools/measuring_line.h"

#include <algorithm>

#include "tools/tables.h"
#include "tools/terminal.h"

namespace l2l::tools {
namespace {

constexpr double kTerminalInterval = 0.1, kLogInterval = 5;  // seconds
constexpr int kLogColumns = 200;

std::string about(double seconds) {
  if (seconds >= 90) return print("about %.0f min", seconds / 60);
  return print("about %.0f s", std::max(1.0, seconds));
}

}  // namespace

MeasuringLine::MeasuringLine(bool quiet) : quiet_(quiet), terminal_(rewrites_lines()) {}

Measuring MeasuringLine::measuring(double seconds) {
  return {seconds, [this](const MeasuringProgress& progress) { show(progress); }};
}

void MeasuringLine::show(const MeasuringProgress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const double interval = terminal_ ? kTerminalInterval : kLogInterval;
  if (quiet_ || std::chrono::duration<double>(now - last_shown_).count() < interval) return;
  last_shown_ = now;
  const std::string line = fit({{0, print("measuring %d of %d: ", progress.number, progress.of) + progress.what + " (" +
                                        about(progress.seconds_left) + ")"}},
                               terminal_ ? terminal_columns() : kLogColumns);
  if (terminal_) {
    rewrite_line(line);
  } else {
    write_message(line + "\n");
  }
  open_line_ = terminal_;
}

void MeasuringLine::finish() {
  if (open_line_) rewrite_line("");
  open_line_ = false;
}

}  // namespace l2l::tools
