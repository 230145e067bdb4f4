#include "device/paced/timeline.h"

#include <algorithm>

namespace l2l::device {

Clock::time_point Timeline::take(Clock::time_point ready, Clock::duration duration, Clock::time_point now) {
  if (duration <= Clock::duration::zero()) return ready;
  const auto ends_by = [](Clock::time_point time) { return [time](const Interval& i) { return i.end < time; }; };
  busy_.erase(busy_.begin(), std::find_if_not(busy_.begin(), busy_.end(), ends_by(now)));

  const auto first = std::find_if_not(busy_.begin(), busy_.end(), ends_by(ready));
  auto next = first;
  Clock::time_point free = ready;
  for (Clock::duration missing = duration;; ++next) {
    const bool last = next == busy_.end();
    if (last || next->begin - free >= missing) {
      free += missing;
      break;
    }
    missing -= std::max(next->begin - free, Clock::duration::zero());
    free = next->end;
  }
  // What lies between is full now: it becomes one interval.
  Interval whole{first != next ? std::min(first->begin, ready) : ready, free};
  if (next != busy_.end() && next->begin == free) whole.end = (next++)->end;
  if (first == next) {
    busy_.insert(first, whole);
  } else {
    *first = whole;
    busy_.erase(first + 1, next);
  }
  return free;
}

}  // namespace l2l::device
