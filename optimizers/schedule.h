// Learning rate as a function of the step. Immutable.
#pragma once

#include <cstdint>

namespace l2l::optimizers {

enum class ScheduleKind : std::uint8_t { constant, cosine, linear };

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double learning_rate = 0;  // peak
  double minimum = 0;        // at the end of cosine and linear
  std::uint64_t warmup_steps = 0;
  std::uint64_t steps = 0;  // of the whole run

  // Rate of step `step`, from 0. Warm-up is linear: learning_rate * (step + 1) / warmup_steps; then the kind's curve
  // over the remaining steps, reaching `minimum` at step `steps`. Beyond the end it stays at `minimum`.
  double at(std::uint64_t step) const;
};

}  // namespace l2l::optimizers
