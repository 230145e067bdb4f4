#include "device/paced/timeline.h"

#include <algorithm>

namespace l2l::device {

Clock::time_point Timeline::take(Clock::time_point ready, Clock::duration duration, Clock::time_point now) {
  if (duration <= Clock::duration::zero()) return ready;
  busy_.erase(busy_.begin(), std::find_if(busy_.begin(), busy_.end(), [&](const Interval& i) { return i.end > now; }));
  Clock::time_point begin = ready;
  auto next = busy_.begin();
  for (; next != busy_.end() && next->begin < begin + duration; ++next) begin = std::max(begin, next->end);
  const Clock::time_point end = begin + duration;
  const bool joins_next = next != busy_.end() && next->begin == end;
  const bool joins_last = next != busy_.begin() && (next - 1)->end == begin;
  if (joins_last) {
    (next - 1)->end = joins_next ? next->end : end;
    if (joins_next) busy_.erase(next);
  } else if (joins_next) {
    next->begin = begin;
  } else {
    busy_.insert(next, {begin, end});
  }
  return begin;
}

}  // namespace l2l::device
