// Ends a process in which a thread of the library hangs (law 8), by what the threads say of themselves
// (core/activity.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace l2l {

// An alarm is raised where
//   a thread sleeps within one job for `limit`, or within one file operation for `file_limit`, without progress; or
//   something is watched, and no thread at all makes progress for `limit` (`file_limit` while one is in a file), nor
//   does any run. While one waits for other ranks that counts only where another sleeps that waits for nobody.
// A thread that the kernel says is running, or waits for a disk, does not sleep; without progress it has ten times as
// long. Time counts only while the monitor itself gets to run: a stopped or suspended process, or a debugger, raises no
// alarm. Thread-safe.
class Watchdog {
 public:
  using Duration = std::chrono::milliseconds;
  struct Limits {
    Duration limit, file_limit;
  };
  // Gets the message of the alarm, which names the thread, and runs on the monitor, once. What it throws is logged.
  using Alarm = std::function<void(const std::string&)>;

  // `advice`: the last sentence of the message.
  Watchdog(Limits limits, std::string advice, Alarm alarm);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_limits(Limits limits);

  // While one lives, work is pending: a run as a whole must make progress.
  class Watch {
   public:
    explicit Watch(Watchdog* watchdog) : watchdog_(watchdog) {
      if (watchdog_ != nullptr) ++watchdog_->watched_;
    }
    ~Watch() {
      if (watchdog_ != nullptr) --watchdog_->watched_;
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Watchdog* watchdog_;
  };

 private:
  void run();

  const std::string advice_;
  const Alarm alarm_;
  std::atomic<int> watched_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  Limits limits_;          // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses all of the above
};

// Limits of a run whose layers visit a device for `visit`: the larger of 10 s and 20 visits; where that is not known
// yet, 10 min; for files 10 min at least (builds with fault points: as for all else, and 10 s where nothing is known).
// The environment variable L2L_HANG_SECONDS replaces them; 0: nothing, no watchdog. Throws BadInput where it is not a
// number from 0 to 1,000,000.
std::optional<Watchdog::Limits> hang_limits(std::optional<std::chrono::duration<double>> visit);

// What the process does with an alarm: the handler of set_hang_handler() (l2l/errors.h), or else writes the message to
// stderr and ends with status 1, without destructors, since a thread that hangs cannot be joined.
void report_hang(const std::string& message);

}  // namespace l2l
