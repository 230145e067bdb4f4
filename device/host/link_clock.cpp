#include "device/host/link_clock.h"

#include <algorithm>

namespace l2l::device {

LinkClock::Turn LinkClock::reserve(Bytes bytes) {
  const Clock::time_point now = Clock::now();
  if (bandwidth_ == 0) return {now, now};
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / static_cast<double>(bandwidth_));
  const std::lock_guard lock(mutex_);
  const Clock::time_point begin = std::max(now, next_free_);
  next_free_ = begin + std::chrono::duration_cast<Clock::duration>(seconds);
  return {begin, next_free_};
}

}  // namespace l2l::device
