// How long is measured, how thoroughly, and who is told: what all measurements of one Trainer have in common.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/activity.h"
#include "core/watchdog.h"
#include "l2l/trainer.h"
#include "runtime/tuning/piece_estimate.h"

namespace l2l::runtime {

// How well a figure is known. Each has names of its own in the calibration, by grade_suffix().
enum class Grade : std::uint8_t { thorough, brief, estimated };
const char* grade_suffix(Grade grade);

// `usual` seconds of it, times the environment's L2L_MEASURING_TIME where that is set (in (0, 1]; anything else is
// warned of once and counts as 1). Figures become noisier, or fewer are measured: for tests of what is done with them,
// and for trying things out.
double measuring_time(double usual);

// Thread-bound.
class MeasuringSession {
 public:
  explicit MeasuringSession(Measuring measuring = {}) : measuring_(std::move(measuring)) {}

  // Everything is measured, for as long as it takes.
  bool thorough() const { return measuring_.seconds == Measuring::kThorough; }
  // Whether figures are for the calibration. Without time, they are for a look ahead, and nothing is to come of them.
  bool keeps() const { return measuring_.seconds > 0; }
  Grade grade() const { return thorough() ? Grade::thorough : Grade::brief; }

  // Whether a measurement that takes about so many seconds may begin. Time runs from the first one on.
  bool allows(double seconds) const { return seconds < left(); }

  // Announces measurements, for the progress that is shown.
  void expect(int count, double seconds);
  // Tells that one begins, which takes about so many seconds.
  void begin(const std::string& what, double seconds);

  // Notes that what follows rests on an estimate in place of which a run would measure.
  void guess() { guessed_ = true; }
  bool guessed() const { return guessed_; }

  PieceRates& rates() { return rates_; }
  // A look at the same rates, without time for measuring.
  MeasuringSession without_time() const;
  // One that takes the time it needs, and tells as this one does.
  MeasuringSession thoroughly() const;

 private:
  double left() const;

  Measuring measuring_;
  PieceRates rates_;
  std::optional<std::chrono::steady_clock::time_point> begin_;
  bool guessed_ = false;
  int count_ = 0, expected_ = 0;
  double current_seconds_ = 0, expected_seconds_ = 0;  // of the measurement that runs; of it and those to come
};

// Watches the calling thread while it measures, and the threads that it starts: they may hang, as those of a run may.
class WatchedMeasuring {
 public:
  explicit WatchedMeasuring(const MeasuringSession& session);

 private:
  const ThreadActivity listed_{"relay", 0};
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<Watchdog::Watch> watch_;
};

}  // namespace l2l::runtime
