// Where the threads of a group of devices wait for each other, again and again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "core/activity.h"
#include "l2l/errors.h"

namespace l2l::device {

// Thread-safe.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  // Throws DeviceError after abort().
  void arrive_and_wait() {
    const ActivitySpan span(Doing::rests, "the wait for the other devices");
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = turn_;
    if (!aborted_ && ++arrived_ == threads_) {
      arrived_ = 0;
      ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn || aborted_; });
    if (turn_ == turn) throw DeviceError("an exchange of devices was aborted: another device has failed");
  }

  // Those who wait, and who come later, throw.
  void abort() noexcept {
    {
      const std::lock_guard lock(mutex_);
      aborted_ = true;
    }
    changed_.notify_all();
  }

 private:
  const int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;         // guarded by mutex_, as are the next two
  std::uint64_t turn_ = 0;  // how often all have arrived
  bool aborted_ = false;
};

}  // namespace l2l::device
