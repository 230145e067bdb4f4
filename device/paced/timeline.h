// When a shared resource (one direction of the link, the compute unit) is busy, in the past and the future.
#pragma once

#include <vector>

#include "core/trace.h"

namespace l2l::device {

// Thread-bound.
class Timeline {
 public:
  Timeline() { busy_.reserve(kRoom); }

  // Takes the first free time from `ready` on that adds up to `duration`, and returns its end. What was taken before
  // does not move; work taken later goes into the gaps that it leaves, in pieces if need be, as packets share a link.
  // `now`: nothing will be asked for before it any more.
  Clock::time_point take(Clock::time_point ready, Clock::duration duration, Clock::time_point now);

 private:
  static constexpr std::size_t kRoom = 4096;  // intervals; more of them allocate
  struct Interval {
    Clock::time_point begin, end;
  };
  std::vector<Interval> busy_;  // ascending, disjoint, none ends where the next one begins
};

}  // namespace l2l::device
