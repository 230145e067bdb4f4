// One direction of a throttled link.
#pragma once

#include <mutex>

#include "core/bytes.h"
#include "core/trace.h"

namespace l2l::device {

// Thread-safe. Copies of all streams take the link one after the other, each at full bandwidth.
class LinkClock {
 public:
  // Bytes per second; 0: unthrottled.
  explicit LinkClock(Bytes bandwidth) : bandwidth_(bandwidth) {}

  // From when to when the link carries something.
  struct Turn {
    Clock::time_point begin, end;
  };
  // Takes the link for `bytes` from its next free moment on.
  Turn reserve(Bytes bytes);

 private:
  const Bytes bandwidth_;
  std::mutex mutex_;
  Clock::time_point next_free_;  // guarded by mutex_
};

}  // namespace l2l::device
