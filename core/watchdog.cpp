#include "core/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "core/activity.h"
#include "core/fault_moment.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

using Duration = Watchdog::Duration;

constexpr int kPatience = 10;  // with threads that run, or wait for a disk

// 'R' running, 'S' sleeping, 'D' waiting for a disk (proc(5), /proc/pid/stat); '?' where the file cannot be read.
char kernel_state(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

bool is_busy(const ThreadState& thread) {
  const char state = kernel_state(thread.thread);
  return state == 'R' || state == 'D';
}

// What one look at the threads found, and for how long it has been so.
class Stalls {
 public:
  explicit Stalls(Watchdog::Limits limits) : limits_(limits) {}

  // `since`: the last look. The message of an alarm; empty: none.
  std::string look(Duration since, bool watched) {
    const std::vector<ThreadState> threads = thread_states();
    bool moved = false;
    std::string alarm;
    for (const ThreadState& thread : threads) {
      Seen& seen = seen_of(thread.place);
      const bool still = seen.moments == thread.moments;
      seen.still = still ? seen.still + since : Duration(0);
      seen.moments = thread.moments;
      moved = moved || !still;
      if (alarm.empty() && hangs(thread, seen)) alarm = "thread " + describe(thread) + " for " + seconds(seen.still);
    }
    all_still_ = moved || !watched ? Duration(0) : all_still_ + since;
    if (alarm.empty() && all_hang(threads)) alarm = all_message(threads);
    return alarm;
  }

 private:
  struct Seen {
    std::uint64_t moments = 0;
    Duration still{0};
  };

  Seen& seen_of(std::size_t place) {
    if (place >= seen_.size()) seen_.resize(place + 1);
    return seen_[place];
  }
  bool hangs(const ThreadState& thread, const Seen& seen) const {
    if (thread.doing != Doing::job && thread.doing != Doing::file) return false;
    const Duration limit = thread.doing == Doing::job ? limits_.limit : limits_.file_limit;
    if (seen.still < limit) return false;
    return seen.still >= kPatience * limit || !is_busy(thread);
  }
  bool all_hang(const std::vector<ThreadState>& threads) const {
    const bool file = std::ranges::any_of(threads, [](const auto& each) { return each.doing == Doing::file; });
    const Duration limit = file ? limits_.file_limit : limits_.limit;
    if (all_still_ < limit) return false;
    return all_still_ >= kPatience * limit || std::ranges::none_of(threads, is_busy);
  }
  // Those that wait for nobody are the ones that others wait for.
  std::string all_message(const std::vector<ThreadState>& threads) const {
    std::string names;
    for (const ThreadState& thread : threads) {
      if (thread.doing != Doing::rests) names += (names.empty() ? "thread " : "; or thread ") + describe(thread);
    }
    return (names.empty() ? "every thread waits for another" : names) + "; no thread has come further for " +
           seconds(all_still_);
  }
  static std::string seconds(Duration duration) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(duration.count()) / 1000);
    return text;
  }

  const Watchdog::Limits limits_;
  std::vector<Seen> seen_;  // by place in the table of threads
  Duration all_still_{0};
};

}  // namespace

Watchdog::Watchdog(Limits limits, std::string advice, Alarm alarm)
    : limits_(limits), advice_(std::move(advice)), alarm_(std::move(alarm)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::run() {
  const Duration period = std::clamp(limits_.limit / 40, Duration(10), Duration(250));
  Stalls stalls(limits_);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, period, [&] { return stopping_; })) {
    const std::string found = stalls.look(period, watched_.load() > 0);
    if (found.empty()) continue;
    return alarm_("the run hangs: " + found + ". The threads:\n" + describe_threads() + advice_);
  }
}

void Watchdog::end_process(const std::string& message) {
  const std::string text = "l2l: error: " + message + "\n";
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  ::_exit(1);
}

std::optional<Watchdog::Limits> hang_limits(std::chrono::duration<double> visit) {
  constexpr Duration kLeast(10'000), kFile(600'000);
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
  const Duration limit = std::max(kLeast, std::chrono::duration_cast<Duration>(20 * visit));
  return Watchdog::Limits{limit, kFaultPoints ? limit : std::max(limit, kFile)};
}

}  // namespace l2l
