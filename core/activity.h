// What each thread of the library is doing: for people who ask (SIGUSR2 of l2l-train), and for the watchdog, which ends
// a run that hangs (core/watchdog.h). A table of the process; entering it, leaving it and reading it take no lock and
// no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace l2l {

// What a thread's present span promises.
enum class Doing : std::uint8_t {
  rests,  // waits for others: for work, data, a device. May last for ever.
  ranks,  // waits for other ranks, whose watchdogs look after them
  acts,   // anything in between
  job,    // a bounded piece of arithmetic: that it does not end is a hang
  file,   // calls of a file system, which may take minutes
};

// Whether a thread that does this waits for others.
bool waits(Doing doing);

// One thread's entry. Written by that thread, read by any.
struct alignas(64) ThreadSlot {
  static constexpr std::size_t kName = 32;
  std::atomic<bool> used{false};
  std::atomic<Doing> doing{Doing::acts};
  std::atomic<int> layer{-1};              // of the span; -1: none
  std::atomic<int> thread{0};              // the kernel's number of it
  std::atomic<const char*> what{nullptr};  // a literal
  std::atomic<std::uint64_t> moments{0};   // of progress, so far
  std::array<std::atomic<char>, kName> name{};
};

// Lists the calling thread as `name`, of which 31 characters are kept, with `index` unless that is below 0. Does
// nothing, and returns false, where the thread is listed already, or 1,024 others are.
bool list_thread(std::string_view name, int index = -1);
void unlist_thread();

// Lists the calling thread until it is destroyed. Thread-bound.
class ThreadActivity {
 public:
  explicit ThreadActivity(std::string_view name, int index = -1) : mine_(list_thread(name, index)) {}
  ~ThreadActivity() {
    if (mine_) unlist_thread();
  }
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;

 private:
  const bool mine_;
};

// A span of the calling thread, from construction to destruction; the one around it then goes on. `what`: a literal
// that follows "is in" ("update", "the wait for a slot"). Both ends are progress. Does nothing on a thread that is not
// listed, nor where a rest is a part of a longer one, or of a wait for other ranks.
class ActivitySpan {
 public:
  explicit ActivitySpan(Doing doing, const char* what, int layer = -1);
  ~ActivitySpan();
  ActivitySpan(const ActivitySpan&) = delete;
  ActivitySpan& operator=(const ActivitySpan&) = delete;

 private:
  ThreadSlot* slot_ = nullptr;  // nullptr: this does nothing
  Doing doing_ = Doing::acts;
  int layer_ = -1;
  const char* what_ = nullptr;
};

// The calling thread has come further within its span.
void note_progress();

struct ThreadState {
  std::string name, what;  // what: empty for none
  Doing doing;
  int layer;
  int thread;  // the kernel's number
  std::uint64_t moments;
  std::size_t place;  // in the table
};
// Of all listed threads.
std::vector<ThreadState> thread_states();
// One line for each: "eps updater: in update of layer 3". Thread-safe.
std::string describe_threads();
std::string describe(const ThreadState& state);

// Within a handler: what is being handled; where that is no Error of the library, an Error that names the thread.
std::exception_ptr named_exception(std::string_view name);
// The same with the name of the calling thread, where it is listed.
std::exception_ptr named_exception();

}  // namespace l2l
