// Where the threads of a group of devices wait for each other, again and again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include "core/activity.h"
#include "l2l/errors.h"

namespace l2l::device {

// Thread-safe.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}

  // After abort() it throws.
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
    if (turn_ != turn) return;
    if (cause_) std::rethrow_exception(cause_);
    throw DeviceError("an exchange of devices was aborted: another device has failed");
  }

  // Those who wait, and who come later, throw `cause`; without one, a DeviceError. Only the first call counts.
  void abort(std::exception_ptr cause = nullptr) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) cause_ = std::move(cause);
      aborted_ = true;
    }
    changed_.notify_all();
  }

 private:
  const int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;         // guarded by mutex_, as are the next three
  std::uint64_t turn_ = 0;  // how often all have arrived
  bool aborted_ = false;
  std::exception_ptr cause_;
};

}  // namespace l2l::device
