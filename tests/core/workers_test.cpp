// Built twice, once for each implementation of Workers.
#include "core/workers.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/denormals.h"
#include "core/log.h"
#include "core/trace.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kThreads = 4;

TEST(Workers, RunsEveryBlockOnce) {
  Workers workers("test", kThreads);
  for (const std::int64_t blocks : {0, 1, 2, 3, 4, 5, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(blocks));
    workers.parallel_for(blocks, [&](std::int64_t block, int) { ++runs[static_cast<std::size_t>(block)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

// Thousands of short calls: a thread that is late for one must not disturb the next.
TEST(Workers, CallsFollowEachOtherClosely) {
  Workers workers("test", kThreads);
  std::vector<std::int64_t> values(16);
  for (std::int64_t call = 0; call < 20000; ++call) {
    workers.parallel_for(
        16, [&, call](std::int64_t block, int) { values[static_cast<std::size_t>(block)] += call + block; });
  }
  for (std::int64_t block = 0; block < 16; ++block) {
    EXPECT_EQ(values[static_cast<std::size_t>(block)], 20000 * 19999 / 2 + 20000 * block);
  }
}

double blocked_sum(Workers& workers) {
  constexpr std::int64_t kBlocks = 97;
  std::array<double, kBlocks> partial{};
  workers.parallel_for(kBlocks, [&](std::int64_t block, int) {
    for (int i = 0; i < 100; ++i)
      partial[static_cast<std::size_t>(block)] += std::sin(static_cast<double>(block * 100 + i));
  });
  double sum = 0;
  for (const double value : partial) sum += value;
  return sum;
}

TEST(Workers, SumsDoNotDependOnTheNumberOfThreads) {
  Workers one("one", 1);
  const double expected = blocked_sum(one);
  for (const int threads : {2, 3, 4, 7}) {
    Workers workers("many", threads);
    EXPECT_EQ(blocked_sum(workers), expected) << threads;
  }
}

// Runs one block per thread; a block returns when all are inside, or false if that takes too long.
bool all_threads_meet(Workers& workers) {
  std::atomic<int> inside{0};
  std::atomic<bool> met{true};
  const auto deadline = steady_clock::now() + seconds(20);
  workers.parallel_for(workers.threads(), [&](std::int64_t, int) {
    ++inside;
    while (inside < workers.threads() && steady_clock::now() < deadline) std::this_thread::yield();
    if (inside < workers.threads()) met = false;
  });
  return met;
}

TEST(Workers, EveryThreadTakesPartEvenWithFewerCores) {
  Workers workers("test", available_cores() + 2);
  EXPECT_TRUE(all_threads_meet(workers));
}

TEST(Workers, PoolsDoNotTakeThreadsFromEachOther) {
  Workers first("first", kThreads), second("second", kThreads);
  bool met = false;
  std::thread other([&] { met = all_threads_meet(second); });
  EXPECT_TRUE(all_threads_meet(first));
  other.join();
  EXPECT_TRUE(met);
}

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(Workers, PoolsThatAreBusyAtOnceNeedNoMoreThreads) {
  Workers first("first", 9), second("second", 8);  // more than other tests
  const std::ptrdiff_t before = threads_of_this_process();
  const int all = first.threads() + second.threads();
  std::atomic<int> inside = 0;
  const auto deadline = steady_clock::now() + seconds(10);
  const auto meet = [&](std::int64_t, int) {
    for (++inside; inside < all && steady_clock::now() < deadline;) std::this_thread::yield();
  };
  std::thread other([&] { second.parallel_for(second.threads(), meet); });
  first.parallel_for(first.threads(), meet);
  other.join();
  EXPECT_EQ(inside, all);
  // A thread that was joined is listed a little longer.
  while (threads_of_this_process() > before && steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(threads_of_this_process(), before);
}

TEST(Workers, NoTwoBlocksShareASlotAtATime) {
  Workers workers("test", kThreads);
  std::array<std::atomic<int>, kThreads> occupants{};
  std::atomic<bool> good{true};
  workers.parallel_for(2000, [&](std::int64_t, int slot) {
    if (slot < 0 || slot >= kThreads) {
      good = false;
      return;
    }
    auto& occupant = occupants[static_cast<std::size_t>(slot)];
    if (++occupant != 1) good = false;
    std::this_thread::sleep_for(std::chrono::microseconds(10));
    --occupant;
  });
  EXPECT_TRUE(good);
}

TEST(Workers, TheCallerTakesPart) {
  Workers workers("test", 2);
  std::atomic<int> inside{0};
  std::atomic<bool> seen{false};
  const std::thread::id caller = std::this_thread::get_id();
  const auto deadline = steady_clock::now() + seconds(20);
  workers.parallel_for(2, [&](std::int64_t, int) {
    if (std::this_thread::get_id() == caller) seen = true;
    for (++inside; inside < 2 && steady_clock::now() < deadline;) std::this_thread::yield();
  });
  EXPECT_TRUE(seen);
}

TEST(Workers, RethrowsAndGoesOnWorking) {
  for (const int threads : {1, kThreads}) {
    Workers workers("test", threads);
    for (int repetition = 0; repetition < 20; ++repetition) {
      EXPECT_THROW(workers.parallel_for(100,
                                        [](std::int64_t block, int) {
                                          if (block % 10 == 7) throw std::runtime_error("block");
                                        }),
                   std::runtime_error);
      std::atomic<int> runs{0};
      workers.parallel_for(100, [&](std::int64_t, int) { ++runs; });
      EXPECT_EQ(runs, 100);
    }
  }
}

float twice(float value) {
  volatile float x = value;
  return x * 2.0f;
}

constexpr float kDenormal = 1e-40f;

TEST(Workers, EveryThreadFlushesDenormalsAndTheCallerGetsItsSettingBack) {
  if (FloatControl::kFlush == 0) GTEST_SKIP() << "no flush-to-zero on this processor";
  ASSERT_GT(twice(kDenormal), 0.0f);
  for (const int threads : {1, kThreads}) {
    Workers workers("test", threads);
    std::atomic<int> inside{0}, kept{0};
    const auto deadline = steady_clock::now() + seconds(20);
    workers.parallel_for(threads, [&](std::int64_t, int) {
      if (twice(kDenormal) != 0.0f) ++kept;
      for (++inside; inside < threads && steady_clock::now() < deadline;) std::this_thread::yield();
    });
    EXPECT_EQ(kept, 0);
    EXPECT_GT(twice(kDenormal), 0.0f);
  }
}

TEST(Workers, FlushingCanBeSetForAThread) {
  if (FloatControl::kFlush == 0) GTEST_SKIP() << "no flush-to-zero on this processor";
  float after = 1;
  std::thread([&] {
    flush_denormals_to_zero();
    after = twice(kDenormal);
  }).join();
  EXPECT_EQ(after, 0.0f);
  EXPECT_GT(twice(kDenormal), 0.0f);
}

// CPUs of the threads but the caller, each of which runs a block; they wait for one another.
std::vector<CpuSet> cpus_of_helpers(Workers& workers) {
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<CpuSet> cpus(static_cast<std::size_t>(workers.threads()));
  std::atomic<int> inside{0};
  const auto deadline = steady_clock::now() + seconds(20);
  workers.parallel_for(workers.threads(), [&](std::int64_t, int slot) {
    if (std::this_thread::get_id() != caller) cpus[static_cast<std::size_t>(slot)] = CpuSet::of_thread();
    for (++inside; inside < workers.threads() && steady_clock::now() < deadline;) std::this_thread::yield();
  });
  std::erase(cpus, CpuSet());
  return cpus;
}

TEST(Workers, ThreadsStayOnTheirCpusAndOnlyTheyDo) {
  const CpuSet all = CpuSet::of_thread();
  if (all.list().size() < 2) GTEST_SKIP() << "needs two CPUs";
  const CpuSet first({all.list().front()}), last({all.list().back()});
  for (int repetition = 0; repetition < 3; ++repetition) {  // threads of oneTBB pass from one pool to the other
    Workers on_first("first", 3, first.list()), on_last("last", 2, last.list()), anywhere("anywhere", 3);
    EXPECT_EQ(cpus_of_helpers(on_first), std::vector<CpuSet>(2, first));
    EXPECT_EQ(cpus_of_helpers(on_last), std::vector<CpuSet>(1, last));
    EXPECT_EQ(cpus_of_helpers(anywhere), std::vector<CpuSet>(2, all));
    EXPECT_EQ(CpuSet::of_thread(), all) << "the caller's own";
  }
}

// Of all threads of this process those that are kept on one CPU.
int bound_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t cpus;
    const int thread = std::stoi(task.path().filename());
    if (sched_getaffinity(thread, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1) ++count;
  }
  return count;
}

// oneTBB keeps its threads, which may still linger in the arena when the pool goes. A thread that was joined is listed
// until the kernel has taken it down.
TEST(Workers, ThreadsThatOutliveThePoolAreFree) {
  const std::vector<int> all = CpuSet::of_thread().list();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  for (int repetition = 0; repetition < 20; ++repetition) {
    {
      Workers bound("bound", 3, {all.front()});
      EXPECT_EQ(cpus_of_helpers(bound).size(), 2u);
    }
    const auto deadline = steady_clock::now() + seconds(2);
    while (bound_threads() > 0 && steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(bound_threads(), 0);
  }
}

// oneTBB starts its threads when they are first needed, here by a thread that is bound.
TEST(Workers, ThreadsStartedForABoundCallerServeOtherPoolsFreely) {
  const CpuSet all = CpuSet::of_thread();
  if (all.list().size() < 2) GTEST_SKIP() << "needs two CPUs";
  constexpr int kMany = 12;  // more than any test before
  Workers bound("bound", kMany, {all.list().front()}), anywhere("anywhere", kMany);
  std::thread([&] {
    bind_thread(CpuSet({all.list().front()}));
    EXPECT_EQ(cpus_of_helpers(bound).size(), static_cast<std::size_t>(kMany - 1));
  }).join();
  EXPECT_EQ(cpus_of_helpers(anywhere), std::vector<CpuSet>(kMany - 1, all));
}

TEST(Workers, GoOnWhereTheSystemRefusesToBind) {
  std::vector<std::string> messages;
  set_log_sink([&](LogLevel, std::string_view message) { messages.emplace_back(message); });
  Workers workers("test", kThreads, {8190, 8191});
  std::atomic<int> runs{0};
  workers.parallel_for(100, [&](std::int64_t, int) { ++runs; });
  EXPECT_TRUE(all_threads_meet(workers));
  bind_thread(CpuSet({8191}));
  set_log_sink({});
  EXPECT_EQ(runs, 100);
  ASSERT_EQ(messages.size(), 1u) << "one warning for all";
  EXPECT_NE(messages[0].find("cannot be bound"), std::string::npos) << messages[0];
}

// A track per thread; for every call a span of each thread that took part, from its first to its last block.
TEST(Workers, TraceWhatEachThreadDid) {
  Workers workers("test", 3);
  Trace trace(1000);
  workers.set_trace(trace, "worker");
  EXPECT_EQ(trace.tracks(), (std::vector<std::string>{"worker 0", "worker 1", "worker 2"}));
  constexpr int kBlocks = 50;
  const auto block = [](std::int64_t, int) { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  workers.annotate("first", 7);
  workers.parallel_for(kBlocks, block);
  workers.annotate("second", 8);
  workers.parallel_for(1, block);
  std::int64_t first_ns = 0;
  std::vector<bool> seen(3);
  const std::vector<Trace::Span> spans = trace.spans();
  for (std::size_t i = 0; i + 1 < spans.size(); ++i) {
    EXPECT_EQ(spans[i].name, "first");
    EXPECT_EQ(spans[i].layer, 7);
    EXPECT_FALSE(seen[static_cast<std::size_t>(spans[i].track)]) << "two spans of a thread in one call";
    seen[static_cast<std::size_t>(spans[i].track)] = true;
    first_ns += spans[i].end_ns - spans[i].begin_ns;
  }
  EXPECT_GE(first_ns, kBlocks * 200'000);
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(spans.back().name, "second");
  EXPECT_EQ(spans.back().layer, 8);
  EXPECT_EQ(spans.back().track, 0);
}

TEST(Workers, TraceNothingOfACallThatFailedInTheNext) {
  Workers workers("test", 1);
  Trace trace(1000);
  workers.set_trace(trace, "worker");
  workers.annotate("first", 7);
  EXPECT_THROW(workers.parallel_for(2,
                                    [](std::int64_t block, int) {
                                      if (block == 1) throw BadInput("no");
                                    }),
               BadInput);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  workers.annotate("second", 8);
  workers.parallel_for(1, [](std::int64_t, int) {});
  const std::vector<Trace::Span> spans = trace.spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_LT(spans[0].end_ns - spans[0].begin_ns, 20'000'000);
}

}  // namespace
}  // namespace l2l
