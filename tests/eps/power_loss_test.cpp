// Law 6 when power is lost at any operation: a reader finds the old or the new checkpoint, whole, and what was saved
// once stays. The negative control leaves out one fsync at a time and must be caught.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "l2l/log.h"
#include "tests/eps/crash_scenario.h"

namespace l2l::eps {
namespace {

using ::l2l::eps::testing::CrashScenario;
using ::l2l::testing::losses_after;
using ::l2l::testing::PowerLoss;

// The first one that a loss of power after operation `from` or later causes; empty when there is none.
std::string first_problem(const CrashScenario& scenario, std::size_t from, std::optional<std::size_t> ignored_sync = {},
                          std::size_t* crashes = nullptr) {
  for (std::size_t operations = from; operations <= scenario.disk().operations(); ++operations) {
    for (PowerLoss loss : losses_after(operations)) {
      loss.ignored_sync = ignored_sync;
      if (crashes != nullptr) ++*crashes;
      const std::string problem = scenario.problem(loss);
      if (!problem.empty()) {
        const std::string last = operations == 0 ? "" : " (" + scenario.disk().describe(operations - 1) + ")";
        return loss.to_string() + last + ": " + problem;
      }
    }
  }
  return "";
}

// Leaves out each fsync from operation `from` on.
void expect_every_sync_is_needed(const CrashScenario& scenario, std::size_t from) {
  std::size_t count = 0;
  for (const std::size_t sync : scenario.disk().syncs()) {
    if (sync < from) continue;
    EXPECT_NE(first_problem(scenario, sync + 1, sync), "") << "nobody misses " << scenario.disk().describe(sync);
    ++count;
  }
  EXPECT_GT(count, 0u);
  std::cout << count << " fsyncs, each left out once\n";
}

class PowerLossTest : public ::testing::Test {
 protected:
  // Warnings of what recovery passes over, thousands of times.
  PowerLossTest() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~PowerLossTest() override { set_log_sink({}); }
};

// The life of a directory: saves, replaced ones, pruning, rubbish, runs that follow each other.
CrashScenario life() {
  CrashScenario scenario;
  scenario.save(1, 1);
  scenario.save(2, 1);
  scenario.save(2, 1);
  scenario.save(3, 2);
  scenario.save(4, 2);
  scenario.save(5, 2);
  scenario.save(5, 2);
  scenario.leave_stale_folder();
  scenario.save(6, 2);
  scenario.set_aside(-1);
  scenario.save(1, 2);
  scenario.save(2, 2);
  scenario.set_aside(1);
  scenario.save(2, 2);
  return scenario;
}

TEST_F(PowerLossTest, AtAnyMomentLeavesAnOldOrANewCheckpoint) {
  const CrashScenario scenario = life();
  std::size_t crashes = 0;
  EXPECT_EQ(first_problem(scenario, 0, {}, &crashes), "");
  std::cout << scenario.disk().operations() << " operations, " << crashes << " crashes\n";
}

TEST_F(PowerLossTest, EveryFsyncIsNeeded) { expect_every_sync_is_needed(life(), 0); }

// The same of ranks that save together.
CrashScenario life_of_ranks() {
  CrashScenario scenario(3);
  scenario.save(1, 1);
  scenario.save(2, 1);
  scenario.save(2, 1);
  scenario.leave_stale_folder();
  scenario.save(3, 2);
  scenario.save(4, 2);
  return scenario;
}

TEST_F(PowerLossTest, AtAnyMomentOfRanksLeavesAnOldOrANewCheckpoint) {
  const CrashScenario scenario = life_of_ranks();
  std::size_t crashes = 0;
  EXPECT_EQ(first_problem(scenario, 0, {}, &crashes), "");
  std::cout << scenario.disk().operations() << " operations, " << crashes << " crashes\n";
}

TEST_F(PowerLossTest, EveryFsyncOfRanksIsNeeded) { expect_every_sync_is_needed(life_of_ranks(), 0); }

using Before = void (*)(CrashScenario&);
constexpr Before kNothing = [](CrashScenario&) {};
constexpr Before kTwoSaves = [](CrashScenario& scenario) {
  scenario.save(1, 1);
  scenario.save(2, 1);
};

// `before`, a save of step 2 whose processes are killed at call `kill`, and one of other processes. Returns the
// scenario and the operation at which the first ones died.
std::pair<CrashScenario, std::size_t> killed(Before before, std::size_t kill, int ranks = 1) {
  std::pair<CrashScenario, std::size_t> result(ranks, 0);
  before(result.first);
  result.first.save(2, 1, kill);
  result.second = result.first.disk().operations();
  result.first.save(2, 1);
  return result;
}

std::size_t calls_of_a_save(Before before, int ranks = 1) {
  CrashScenario scenario(ranks);
  before(scenario);
  return scenario.save(2, 1);
}

TEST_F(PowerLossTest, AfterAKillAndARestartLeavesAnOldOrANewCheckpoint) {
  for (const Before before : {kNothing, kTwoSaves}) {
    std::size_t last = 0, crashes = 0, kills = 0;
    for (std::size_t kill = 1; kill <= calls_of_a_save(before); ++kill) {
      const auto [scenario, death] = killed(before, kill);
      if (death == last) continue;  // nothing was done in between
      last = death;
      ++kills;
      ASSERT_EQ(first_problem(scenario, death, {}, &crashes), "") << "killed at call " << kill;
    }
    EXPECT_GT(kills, 20u);
    std::cout << kills << " kills, " << crashes << " crashes\n";
  }
}

TEST_F(PowerLossTest, AfterAKillOfAllRanksLeavesAnOldOrANewCheckpoint) {
  std::size_t last = 0, crashes = 0, kills = 0;
  for (std::size_t kill = 1; kill <= calls_of_a_save(kTwoSaves, 2); ++kill) {
    const auto [scenario, death] = killed(kTwoSaves, kill, 2);
    if (death == last) continue;
    last = death;
    ++kills;
    ASSERT_EQ(first_problem(scenario, death, {}, &crashes), "") << "killed at call " << kill;
  }
  EXPECT_GT(kills, 30u);
  std::cout << kills << " kills, " << crashes << " crashes\n";
}

// Kills after the operation whose description holds `what`.
CrashScenario killed_after(Before before, const std::string& what, std::size_t* death) {
  for (std::size_t kill = 1; kill <= calls_of_a_save(before); ++kill) {
    auto [scenario, operations] = killed(before, kill);
    const bool after = operations > 0 && scenario.disk().describe(operations - 1).find(what) != std::string::npos;
    if (after) return *death = operations, std::move(scenario);
  }
  throw std::runtime_error("no kill after " + what);
}

// What a process did that was killed before it could sync is synced by the next one.
TEST_F(PowerLossTest, EveryFsyncAfterAKillIsNeeded) {
  std::size_t death = 0;
  const CrashScenario replaced = killed_after(kTwoSaves, "to /data/checkpoints/run/step-00000002", &death);
  expect_every_sync_is_needed(replaced, death);
  for (const char* folder : {"/data/checkpoints", "/data/checkpoints/run"}) {
    const CrashScenario first = killed_after(kNothing, std::string("make folder ") + folder, &death);
    expect_every_sync_is_needed(first, death);
  }
}

}  // namespace
}  // namespace l2l::eps
