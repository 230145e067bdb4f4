// Times as integers, so that sums do not depend on their order and comparisons are exact.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "l2l/errors.h"

namespace l2l::compiler::remat {

using Nanoseconds = std::uint64_t;

// Rounds to the nearest. Throws BadInput for negative times, not-a-number, and a year or more.
inline Nanoseconds to_nanoseconds(double seconds) {
  if (!(seconds >= 0 && seconds < 365.0 * 86400)) {
    throw BadInput("recompute: " + std::to_string(seconds) + " seconds are no time");
  }
  return static_cast<Nanoseconds>(std::llround(seconds * 1e9));
}

}  // namespace l2l::compiler::remat
