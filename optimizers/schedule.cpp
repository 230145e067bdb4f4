#include "optimizers/schedule.h"

#include <cmath>
#include <numbers>

namespace l2l::optimizers {
namespace {

// Share of the way from the end of the warm-up to the end of the run, in [0, 1].
double progress(const Schedule& schedule, std::uint64_t step) {
  if (step >= schedule.steps) return 1;
  return static_cast<double>(step - schedule.warmup_steps) /
         static_cast<double>(schedule.steps - schedule.warmup_steps);
}

}  // namespace

double Schedule::at(std::uint64_t step) const {
  if (step < warmup_steps) return learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  switch (kind) {
    case ScheduleKind::constant:
      break;
    case ScheduleKind::linear:
      return learning_rate + (minimum - learning_rate) * progress(*this, step);
    case ScheduleKind::cosine:
      return minimum + (learning_rate - minimum) * (1 + std::cos(std::numbers::pi * progress(*this, step))) / 2;
  }
  return learning_rate;
}

}  // namespace l2l::optimizers
