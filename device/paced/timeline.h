// When something that serves one at a time (a direction of the link, the compute unit) is busy, in the past and ahead.
#pragma once

#include <vector>

#include "core/trace.h"

namespace l2l::device {

// Thread-bound.
class Timeline {
 public:
  Timeline() { busy_.reserve(kRoom); }

  // Takes `duration` at the earliest moment from `ready` on at which that much is free, and returns the moment. What
  // was taken before does not move. `now`: nothing will be asked for before it any more.
  Clock::time_point take(Clock::time_point ready, Clock::duration duration, Clock::time_point now);

 private:
  static constexpr std::size_t kRoom = 4096;  // intervals; more of them allocate
  struct Interval {
    Clock::time_point begin, end;
  };
  std::vector<Interval> busy_;  // ascending, disjoint, none ends where the next one begins
};

}  // namespace l2l::device
