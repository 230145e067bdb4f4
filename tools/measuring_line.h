// What is being measured: on a terminal one line that is rewritten and goes when all is measured, in a log a line when
// measuring begins and every few seconds.
#pragma once

#include <chrono>

#include "l2l/trainer.h"

namespace l2l::tools {

// Thread-bound.
class MeasuringLine {
 public:
  explicit MeasuringLine(bool quiet = false);
  ~MeasuringLine() { finish(); }
  MeasuringLine(const MeasuringLine&) = delete;
  MeasuringLine& operator=(const MeasuringLine&) = delete;

  // For a Trainer, which this must outlive.
  Measuring measuring(double seconds);
  // Makes room for other messages.
  void finish();

 private:
  void show(const MeasuringProgress& progress);

  const bool quiet_, terminal_;
  std::chrono::steady_clock::time_point last_shown_{};
  bool open_line_ = false;
};

}  // namespace l2l::tools
