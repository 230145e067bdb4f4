#include "core/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <thread>

#include "core/activity.h"
#include "core/log.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

using std::chrono::milliseconds;

constexpr Watchdog::Limits kLimits{milliseconds(200), milliseconds(1000)};

// What a watchdog says within `time` about threads that run meanwhile; "" for nothing.
struct Listener {
  std::promise<std::string> promise;
  std::future<std::string> heard = promise.get_future();
  std::string within(milliseconds time) { return heard.wait_for(time) == std::future_status::ready ? heard.get() : ""; }
};

// A listed thread in a span until it is destroyed.
class InSpan {
 public:
  InSpan(const char* name, Doing doing, const char* what, bool moves = false)
      : thread_([=, this] {
          const ThreadActivity listed(name, 3);
          const ActivitySpan span(doing, what, 7);
          entered_.set_value();
          while (!ended_) {
            std::this_thread::sleep_for(milliseconds(20));
            if (moves) note_progress();
          }
        }) {
    entered_.get_future().wait();
  }
  ~InSpan() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::promise<void> entered_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

TEST(Activity, SaysWhatEachThreadDoes) {
  const InSpan thread("a feeder", Doing::acts, "a fetch");
  EXPECT_NE(describe_threads().find("a feeder 3: in a fetch of layer 7\n"), std::string::npos) << describe_threads();
}

// A thread that looks again and again has not come further.
TEST(Activity, ARestWithinARestIsNoProgress) {
  const ThreadActivity listed("a courier");
  const auto moments = [] {
    for (const ThreadState& each : thread_states()) {
      if (each.name == "a courier") return each.moments;
    }
    return std::uint64_t{0};
  };
  for (const Doing outer : {Doing::rests, Doing::ranks}) {
    const ActivitySpan span(outer, "a wait");
    const std::uint64_t before = moments();
    { const ActivitySpan inner(Doing::rests, "another"); }
    EXPECT_EQ(moments(), before);
    { const ActivitySpan inner(Doing::acts, "something"); }
    EXPECT_EQ(moments(), before + 2);
    EXPECT_NE(describe_threads().find("a courier: in a wait\n"), std::string::npos);
  }
}

TEST(Activity, AnUnknownExceptionNamesItsThread) {
  try {
    throw std::runtime_error("no more");
  } catch (...) {
    try {
      std::rethrow_exception(named_exception("eps updater 0"));
    } catch (const std::exception& error) {
      EXPECT_STREQ(error.what(), "thread \"eps updater 0\" failed: no more");
    }
  }
}

// Who tells the user of memory that ran out knows it by its type.
TEST(Activity, MemoryThatRanOutStaysWhatItIs) {
  try {
    throw std::bad_alloc();
  } catch (...) {
    EXPECT_THROW(std::rethrow_exception(named_exception("eps updater 0")), std::bad_alloc);
  }
}

TEST(Watchdog, NamesAThreadThatStaysInAJob) {
  Listener listener;
  const InSpan hung("an updater", Doing::job, "an update"), well("a worker", Doing::job, "a block", /*moves=*/true);
  const Watchdog watchdog(kLimits, "advice", [&](const std::string& said) { listener.promise.set_value(said); });
  const std::string said = listener.within(milliseconds(10'000));
  EXPECT_NE(said.find("the run hangs: thread an updater 3: in an update of layer 7 for "), std::string::npos) << said;
  EXPECT_NE(said.find("a worker 3: in a block"), std::string::npos) << said;
  EXPECT_NE(said.find("advice"), std::string::npos) << said;
}

// A thread that computes for longer than its job is thought to take is slow; one that sleeps there hangs.
TEST(Watchdog, WhoComputesHasTenTimesAsLong) {
  Listener listener;
  std::atomic<bool> ended{false};
  std::thread busy([&] {
    const ThreadActivity listed("a worker");
    const ActivitySpan span(Doing::job, "a block");
    while (!ended) {
    }
  });
  {
    const Watchdog watchdog(kLimits, "", [&](const std::string& said) { listener.promise.set_value(said); });
    EXPECT_EQ(listener.within(milliseconds(1000)), "");
    EXPECT_NE(listener.within(milliseconds(10'000)).find("a worker: in a block"), std::string::npos);
  }
  ended = true;
  busy.join();
}

// The hang of a child ends it; the program that embeds the library may decide otherwise.
TEST(Watchdog, AHangEndsTheProcessUnlessAHandlerIsSet) {
  EXPECT_EXIT(report_hang("thread x"), ::testing::ExitedWithCode(1), "l2l: error: thread x");
  std::string said;
  set_hang_handler([&](const std::string& message) { said = message; });
  report_hang("thread y");
  EXPECT_EQ(said, "thread y");
  set_hang_handler({});
  EXPECT_EXIT(report_hang("thread z"), ::testing::ExitedWithCode(1), "thread z");
}

TEST(Watchdog, LogsWhatItsAlarmThrows) {
  Listener listener;
  std::atomic<int> said{0};
  set_log_sink([&](LogLevel level, std::string_view message) {
    if (said++ == 0) listener.promise.set_value(std::to_string(static_cast<int>(level)) + " " + std::string(message));
  });
  {
    const InSpan hung("an updater", Doing::job, "an update");
    const Watchdog watchdog(kLimits, "advice",
                            [](const std::string&) { throw std::runtime_error("the pager is off"); });
    const std::string heard = listener.within(milliseconds(10'000));
    EXPECT_TRUE(heard.starts_with("2 the run hangs: thread an updater 3: in an update of layer 7")) << heard;
    EXPECT_NE(heard.find("advice\nThe handler of hangs failed: the pager is off"), std::string::npos) << heard;
  }
  set_log_sink({});
  EXPECT_EQ(said, 1);
}

TEST(Watchdog, LimitsFollowTheVisitAndTheEnvironment) {
  using std::chrono::seconds;
  ::unsetenv("L2L_HANG_SECONDS");
  EXPECT_EQ(hang_limits(seconds(0))->limit, seconds(10));
  EXPECT_EQ(hang_limits(seconds(3))->limit, seconds(60));
  ::setenv("L2L_HANG_SECONDS", "2.5", 1);
  EXPECT_EQ(hang_limits(seconds(3))->limit, milliseconds(2500));
  ::setenv("L2L_HANG_SECONDS", "0", 1);
  EXPECT_FALSE(hang_limits(seconds(3)));
  for (const char* const bad : {"x", "-1", "nan", "1e9"}) {
    ::setenv("L2L_HANG_SECONDS", bad, 1);
    EXPECT_THROW(hang_limits(seconds(3)), BadInput) << bad;
  }
  ::unsetenv("L2L_HANG_SECONDS");
}

TEST(Watchdog, SaysNothingOfThreadsThatRestOrMove) {
  Listener listener;
  const InSpan rests("a saver", Doing::rests, "a wait"), well("a worker", Doing::job, "a block", /*moves=*/true);
  Watchdog watchdog(kLimits, "", [&](const std::string& said) { listener.promise.set_value(said); });
  const Watchdog::Watch watch(&watchdog);
  EXPECT_EQ(listener.within(milliseconds(1000)), "");
}

TEST(Watchdog, ARunInWhichNobodyMovesHangs) {
  Listener listener;
  const InSpan feeder("a feeder", Doing::acts, "a fetch"), rests("a stream", Doing::rests, "a wait");
  Watchdog watchdog(kLimits, "", [&](const std::string& said) { listener.promise.set_value(said); });
  EXPECT_EQ(listener.within(milliseconds(600)), "");  // nothing is watched: no work is pending
  const Watchdog::Watch watch(&watchdog);
  const std::string said = listener.within(milliseconds(10'000));
  EXPECT_NE(said.find("the run hangs: thread a feeder 3: in a fetch of layer 7; no thread has come further for"),
            std::string::npos)
      << said;
}

TEST(Watchdog, FilesMayTakeLonger) {
  Listener listener;
  const InSpan saver("a saver", Doing::file, "writing a checkpoint");
  Watchdog watchdog(kLimits, "", [&](const std::string& said) { listener.promise.set_value(said); });
  const Watchdog::Watch watch(&watchdog);
  EXPECT_EQ(listener.within(milliseconds(500)), "");
  EXPECT_NE(listener.within(milliseconds(10'000)).find("a saver 3: in writing a checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace l2l
