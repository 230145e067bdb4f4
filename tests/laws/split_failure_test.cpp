// Law 8 where layers are split over devices (device.tensor): whichever thread of whichever device fails, in the middle
// of what they exchange, all end with its cause, and none waits for ever.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "core/fault_moment.h"
#include "core/fault_point.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

#ifdef L2L_FAULT_POINTS

namespace l2l::split_failure_law {
namespace {

using testing::SmallRun;

constexpr int kSteps = 3;

// Two groups of two devices. Layers are so large that streams copy some of each on their own threads.
Options options_of(const SmallRun& run) {
  Options options = run.options();
  options.model.hidden = 64;
  options.model.heads = 4;
  options.model.sequence = 12;
  options.batch = {.micro_batch = 2, .micro_batches = 4};
  options.device.count = 4;
  options.device.tensor = 2;
  options.device.threads = 1;
  options.eps.threads = 2;
  options.transfer.stash = "host";
  return options;
}

void train(const Options& options) { testing::record_of(options, kSteps); }

std::string fault(long long moment, const std::string& thread) {
  return "throw:" + std::to_string(moment) + ":" + thread;
}

// How many a run has in which nothing fails. Those of "relay 0" vary from run to run: it shares blocks of work with a
// pool of threads.
long long moments_of(const Options& options, const std::string& thread) {
  constexpr long long kMost = 1'000'000;
  arm_fault_moment(fault(kMost, thread));
  train(options);
  return kMost - fault_moments_left();
}

// What training says that fails at that moment of the thread; nothing where it ended before.
std::optional<std::string> failure_at(const Options& options, long long moment, const std::string& thread) {
  arm_fault_moment(fault(moment, thread));
  const std::string said = testing::refusal([&] { train(options); });
  const bool reached = fault_moments_left() <= 0;
  arm_fault_moment("");
  if (reached) return said;
  EXPECT_EQ(said, "(none)") << thread << ", moment " << moment;
  return std::nullopt;
}

// Streams of all devices have the same names; each of the other threads is one device's, or the parameter server's.
constexpr auto kThreads = std::to_array<const char*>(
    {"relay 0", "relay 1", "relay 2", "weight feeder 0", "weight feeder 1", "weight feeder 3", "gradient sender 0",
     "gradient sender 1", "gradient sender 2", "gradient completion 0", "gradient completion 1",
     "gradient completion 3", "eps updater", "compute", "h2d weights", "d2h gradients"});

struct SplitFailure : ::testing::Test {
  ~SplitFailure() override {
    arm_fault_point("");
    arm_fault_moment("");
  }
};

TEST_F(SplitFailure, OfOneThreadEndsAllWithItsCause) {
  const SmallRun run;
  const Options options = options_of(run);
  std::minstd_rand random(1);
  arm_fault_point("stream.none_inline");  // what a thread does, it then does for itself
  for (const std::string thread : kThreads) {
    const long long moments = moments_of(options, thread);
    ASSERT_GT(moments, 10) << thread;
    constexpr int kRuns = 10;
    int failed = 0;
    for (int i = 0; i < kRuns; ++i) {
      const long long moment = 1 + static_cast<long long>(random()) % moments;
      const std::optional<std::string> said = failure_at(options, moment, thread);
      if (!said) continue;
      ++failed;
      EXPECT_TRUE(said->starts_with("thread \"" + thread)) << thread << ", moment " << moment << ": " << *said;
      EXPECT_NE(said->find("injected: it died"), std::string::npos) << thread << ", moment " << moment << ": " << *said;
    }
    EXPECT_GT(failed, kRuns / 2) << thread;
  }
}

// A copy is its stream's, whichever thread made it the next one and runs it: a failure then names the stream. How many
// moments of a thread are of copies varies from run to run, and how many it has with them.
TEST_F(SplitFailure, OfAThreadThatCopiesForAStreamEndsAll) {
  const SmallRun run;
  const Options options = options_of(run);
  std::minstd_rand random(1);
  int runs = 0, failed = 0, streams = 0;
  for (const std::string thread : kThreads) {
    const long long moments = moments_of(options, thread);
    for (int i = 0; i < 5; ++i) {
      const long long moment = 1 + static_cast<long long>(random()) % moments;
      ++runs;
      const std::optional<std::string> said = failure_at(options, moment, thread);
      if (!said) continue;
      ++failed;
      const auto names = [&](const std::string& name) { return said->starts_with("thread \"" + name); };
      const bool itself = names(thread), stream = names("compute") || names("h2d ") || names("d2h ");
      if (!itself && stream) ++streams;
      EXPECT_TRUE(itself || stream) << thread << ", moment " << moment << ": " << *said;
      EXPECT_NE(said->find("injected: it died"), std::string::npos) << thread << ", moment " << moment << ": " << *said;
    }
  }
  EXPECT_GT(failed, runs / 4);
  EXPECT_GT(streams, 0);
}

// Negative control: devices that are not told wait for the one that has failed until the limit of time.
TEST_F(SplitFailure, ThatTheOthersAreNotToldIsSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const SmallRun run;
  const auto train_until = [&](unsigned seconds) {
    alarm(seconds);
    arm_fault_moment(fault(20, "compute"));
    std::fprintf(stderr, "%s\n", testing::refusal([&] { train(options_of(run)); }).c_str());
    std::exit(0);
  };
  EXPECT_EXIT(train_until(60), ::testing::ExitedWithCode(0), "injected: it died");
  const auto untold = [&] {
    arm_fault_point("tensor.untold");
    train_until(10);
  };
  EXPECT_EXIT(untold(), ::testing::KilledBySignal(SIGALRM), "");
}

}  // namespace
}  // namespace l2l::split_failure_law

#endif
