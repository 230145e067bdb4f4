#include "runtime/tuning/measuring.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

#include "core/log.h"

namespace l2l::runtime {

const char* grade_suffix(Grade grade) {
  return grade == Grade::thorough ? "" : grade == Grade::brief ? ", brief" : ", estimated";
}

double measuring_time(double usual) {
  static const double share = [] {
    const char* const text = std::getenv("L2L_MEASURING_TIME");
    if (text == nullptr || *text == '\0') return 1.0;
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (*end == '\0' && value > 0 && value <= 1) return value;
    log(LogLevel::warning, std::string("L2L_MEASURING_TIME=") + text + ": is no number in (0, 1]; ignored");
    return 1.0;
  }();
  return share * usual;
}

double MeasuringSession::left() const {
  const double all = measuring_time(measuring_.seconds);
  if (!begin_) return all;
  return all - std::chrono::duration<double>(std::chrono::steady_clock::now() - *begin_).count();
}

void MeasuringSession::expect(int count, double seconds) {
  expected_ += count;
  expected_seconds_ += seconds;
}

void MeasuringSession::begin(const std::string& what, double seconds) {
  note_progress();
  if (!begin_) begin_ = std::chrono::steady_clock::now();
  expected_seconds_ = std::max(expected_seconds_ - current_seconds_, seconds);
  current_seconds_ = seconds;
  expected_ = std::max(expected_, ++count_);
  if (measuring_.show) measuring_.show({what, count_, expected_, std::min(expected_seconds_, left())});
}

WatchedMeasuring::WatchedMeasuring(const MeasuringSession& session) {
  if (!session.keeps()) return;
  const std::optional<Watchdog::Limits> limits = hang_limits(/*visit=*/std::nullopt);
  if (!limits) return;
  try {
    watchdog_ = std::make_unique<Watchdog>(
        *limits, "it was measuring. L2L_HANG_SECONDS sets how long is too long; 0: never", report_hang);
    watch_.emplace(watchdog_.get());
  } catch (const std::system_error&) {  // no thread for it
  }
}

MeasuringSession MeasuringSession::thoroughly() const {
  MeasuringSession session = *this;
  session.measuring_.seconds = Measuring::kThorough;
  return session;
}

MeasuringSession MeasuringSession::without_time() const {
  MeasuringSession look({.seconds = 0});
  look.rates_ = rates_;
  return look;
}

}  // namespace l2l::runtime
