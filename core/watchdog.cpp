#include "core/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

#include "core/activity.h"
#include "core/failure.h"
#include "core/fault_moment.h"
#include "core/log.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

using Duration = Watchdog::Duration;

constexpr int kPatience = 10;  // with threads that run, or wait for a disk

// 'R' running, 'S' sleeping, 'D' waiting for a disk (proc(5), /proc/pid/stat); '?' where the file cannot be read.
char kernel_state(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);  // which does not throw where the thread ends meanwhile
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

bool is_busy(const ThreadState& thread) {
  const char state = kernel_state(thread.thread);
  return state == 'R' || state == 'D';
}

// What the looks at the threads have found so far.
class Stalls {
 public:
  // `since`: the last look. The message of an alarm; empty: none.
  std::string look(Watchdog::Limits limits, Duration since, bool watched) {
    const std::vector<ThreadState> threads = thread_states();
    bool moved = false, busy = false, file = false, ranks = false, sleeps = false;
    std::string alarm;
    for (const ThreadState& thread : threads) {
      Stall& stall = stall_of(thread);
      const bool runs = is_busy(thread);
      moved = stall.count(thread.moments, since, runs) || moved;
      busy = busy || runs;
      file = file || thread.doing == Doing::file;
      ranks = ranks || thread.doing == Doing::ranks;
      sleeps = sleeps || !(runs || waits(thread.doing));
      const bool bounded = thread.doing == Doing::job || thread.doing == Doing::file;
      if (alarm.empty() && bounded && stall.exceeds(limit_of(limits, thread.doing == Doing::file))) {
        alarm = "thread " + describe(thread) + " for " + seconds(stall.still);
      }
    }
    const bool for_others = ranks && !sleeps;  // all that is missing here may come from another rank
    if (moved || for_others || !watched) all_ = {};
    all_.count(all_.moments, since, busy);
    if (alarm.empty() && all_.exceeds(limit_of(limits, file))) alarm = all_message(threads);
    return alarm;
  }

 private:
  // Time without progress: all of it, and what was slept of it without a break.
  struct Stall {
    std::uint64_t moments = 0;
    Duration still{0}, asleep{0};

    // Whether there was progress.
    bool count(std::uint64_t now, Duration since, bool busy) {
      if (moments != now) {
        *this = {now, {}, {}};
        return true;
      }
      still += since;
      asleep = busy ? Duration(0) : asleep + since;
      return false;
    }
    bool exceeds(Duration limit) const { return asleep >= limit || still >= kPatience * limit; }
  };

  static Duration limit_of(Watchdog::Limits limits, bool file) { return file ? limits.file_limit : limits.limit; }
  Stall& stall_of(const ThreadState& thread) {
    if (thread.place >= stalls_.size()) stalls_.resize(thread.place + 1);
    return stalls_[thread.place];
  }
  // Those that wait for nobody are the ones that others wait for.
  std::string all_message(const std::vector<ThreadState>& threads) const {
    std::string names;
    for (const ThreadState& thread : threads) {
      if (!waits(thread.doing)) names += (names.empty() ? "thread " : "; or thread ") + describe(thread);
    }
    return (names.empty() ? "every thread waits for another" : names) + "; no thread has come further for " +
           seconds(all_.still);
  }
  static std::string seconds(Duration duration) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(duration.count()) / 1000);
    return text;
  }

  std::vector<Stall> stalls_;  // by place in the table of threads
  Stall all_;                  // of the run as a whole
};

HangHandler& handler() {
  static HangHandler one;
  return one;
}
std::mutex handler_mutex;

}  // namespace

void set_hang_handler(HangHandler new_handler) {
  const std::lock_guard lock(handler_mutex);
  handler() = std::move(new_handler);
}

void report_hang(const std::string& message) {
  HangHandler chosen;
  {
    const std::lock_guard lock(handler_mutex);
    chosen = handler();
  }
  if (chosen) return chosen(message);
  const std::string text = "l2l: error: " + message + "\n";
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  ::_exit(1);
}

Watchdog::Watchdog(Limits limits, std::string advice, Alarm alarm)
    : advice_(std::move(advice)), alarm_(std::move(alarm)), limits_(limits), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::set_limits(Limits limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

void Watchdog::run() {
  Stalls stalls;
  std::string found;
  std::unique_lock lock(mutex_);
  while (true) {
    const Duration period = std::clamp(limits_.limit / 40, Duration(10), Duration(250));
    if (changed_.wait_for(lock, period, [&] { return stopping_; })) return;
    found = stalls.look(limits_, period, watched_.load() > 0);
    if (!found.empty()) break;
  }
  lock.unlock();
  const std::string message = "the run hangs: " + found + ". The threads:\n" + describe_threads() + advice_;
  try {
    alarm_(message);
  } catch (...) {
    log(LogLevel::error, message + "\nThe handler of hangs failed: " + message_of_current_exception());
  }
}

std::optional<Watchdog::Limits> hang_limits(std::optional<std::chrono::duration<double>> visit) {
  constexpr Duration kLeast(10'000), kLong(600'000);
  if (const char* const text = std::getenv("L2L_HANG_SECONDS"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const double seconds = std::strtod(text, &end);
    if (*end != '\0' || !(seconds >= 0 && seconds <= 1e6)) {
      throw BadInput("L2L_HANG_SECONDS = " + std::string(text) + ": a number of seconds from 0 (never) to 1000000");
    }
    const Duration limit(static_cast<std::int64_t>(seconds * 1000));
    if (limit == Duration(0)) return std::nullopt;
    return Watchdog::Limits{limit, limit};
  }
  if (!visit) return kFaultPoints ? Watchdog::Limits{kLeast, kLeast} : Watchdog::Limits{kLong, kLong};
  const Duration limit = std::max(kLeast, std::chrono::duration_cast<Duration>(20 * *visit));
  return Watchdog::Limits{limit, kFaultPoints ? limit : std::max(limit, kLong)};
}

}  // namespace l2l
