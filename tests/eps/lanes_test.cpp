// Several lanes: which group goes where, where threads and memory are, who does what.
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "eps/group_lanes.h"
#include "l2l/errors.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

using Lanes = std::vector<int>;

Lanes spread(const std::vector<Bytes>& groups, const std::vector<int>& workers) {
  return spread_groups(groups, workers);
}

std::vector<double> bytes_per_worker(const std::vector<Bytes>& groups, const std::vector<int>& workers) {
  const Lanes lanes = spread(groups, workers);
  std::vector<double> load(workers.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto lane = static_cast<std::size_t>(lanes[i]);
    load[lane] += static_cast<double>(groups[i]) / workers[lane];
  }
  return load;
}

TEST(GroupLanes, OneLaneHasAll) { EXPECT_EQ(spread({5, 1, 1, 9}, {3}), Lanes({0, 0, 0, 0})); }

TEST(GroupLanes, NeighboursAlternate) {
  EXPECT_EQ(spread({4, 4, 4, 4, 4, 4}, {2, 2}), Lanes({0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(spread({4, 4, 4, 4, 4, 4}, {1, 1, 1}), Lanes({0, 1, 2, 0, 1, 2}));
}

// A table of ten blocks: the other lane gets more blocks, but not all of them in a row.
TEST(GroupLanes, ALargeTableIsMadeUpForAlongTheWholeModel) {
  std::vector<Bytes> groups(25, 1);
  groups[0] = 10;
  const Lanes lanes = spread(groups, {1, 1});
  EXPECT_EQ(std::ranges::count(lanes, 1), 17);
  int run = 0, longest = 0;
  for (std::size_t i = 1; i < lanes.size(); ++i) {
    run = lanes[i] == lanes[i - 1] ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  EXPECT_LE(longest, 3);
}

TEST(GroupLanes, BytesFollowWorkersWithinOneGroup) {
  const std::vector<std::vector<Bytes>> models = {
      std::vector<Bytes>(48, 7), {100, 3, 7, 7, 7, 7, 7, 7, 1}, {1, 1, 1}, {8, 1, 9, 2, 9, 2, 9, 2, 9, 2, 8}};
  for (const std::vector<Bytes>& groups : models) {
    const double largest = static_cast<double>(std::ranges::max(groups));
    for (const std::vector<int>& workers : std::vector<std::vector<int>>{{1, 1}, {3, 4}, {1, 2, 3}, {16, 16, 16, 16}}) {
      const std::vector<double> load = bytes_per_worker(groups, workers);
      const double most = std::ranges::max(load), least = std::ranges::min(load);
      EXPECT_LE(most - least, largest * 1.001 / std::ranges::min(workers)) << groups.size() << ", " << workers.size();
    }
  }
}

StoreOptions with_lanes(bool bound) {
  StoreOptions options = toy_options();
  const std::vector<int> cpus = CpuSet::of_thread().list();
  options.placement.lanes = {{0, 2, {cpus.front()}}, {0, 1, {cpus.back()}}};
  options.placement.bound = bound;
  return options;
}

// Remembers under which memory policy it was asked.
class PolicyMemory final : public MemorySource {
 public:
  std::byte* allocate(Bytes size, std::string_view purpose) override {
    int mode = -1;
    syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0);
    policies.emplace(purpose, mode);
    return memory_.allocate(size, purpose);
  }
  std::map<std::string, int> policies;

 private:
  TestMemory memory_;
};

TEST(Lanes, StateComesFromTheNodeOfItsLaneAndStagingFromWhereItWould) {
  int mode = -1;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0) GTEST_SKIP() << "no memory policies here";
  for (const bool bound : {false, true}) {
    PolicyMemory memory;
    Failure failure;
    const ParameterStore store(toy_layout(), with_lanes(bound), memory, failure, nullptr);
    ASSERT_GE(memory.policies.size(), 6u);
    for (const auto& [purpose, policy] : memory.policies) {
      const bool state = purpose.starts_with("weights and moments");
      EXPECT_EQ(policy, state && bound ? MPOL_PREFERRED : MPOL_DEFAULT) << purpose;
    }
  }
}

// Lists of allowed CPUs of this process's threads.
std::multiset<std::string> cpus_of_threads() {
  std::multiset<std::string> lists;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Cpus_allowed_list:\t")) lists.insert(line.substr(19));
    }
  }
  return lists;
}

TEST(Lanes, UpdaterThreadsStayOnTheCpusOfTheirLane) {
  const std::vector<int> cpus = CpuSet::of_thread().list();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  for (const bool bound : {false, true}) {
    TestMemory memory;
    Failure failure;
    const StoreOptions options = with_lanes(bound);
    ParameterStore store(toy_layout(), options, memory, failure, nullptr);
    run_step(store, options, 0);
    const std::multiset<std::string> lists = cpus_of_threads();
    EXPECT_EQ(lists.contains(std::to_string(cpus.front())), bound);
    EXPECT_EQ(lists.contains(std::to_string(cpus.back())), bound);
  }
}

// Every group is checked and updated by one and the same updater, and both have work.
TEST(Lanes, EachUpdaterHasItsGroups) {
  TestMemory memory;
  Failure failure;
  Trace trace(10000);
  StoreOptions options = with_lanes(false);
  options.placement.lanes[1].node = 1;
  ParameterStore store(toy_layout(), options, memory, failure, &trace);
  for (std::uint64_t step = 0; step < 3; ++step) run_step(store, options, step);
  const std::vector<std::string> tracks = trace.tracks();
  std::map<int, std::set<int>> layers;  // by updater
  for (const Trace::Span& span : trace.spans()) {
    if (tracks[static_cast<std::size_t>(span.track)].starts_with("eps updater")) layers[span.track].insert(span.layer);
  }
  EXPECT_EQ(layers.size(), 2u);
  EXPECT_EQ(std::ranges::count(tracks, "eps updater of node 0"), 1);
  EXPECT_EQ(std::ranges::count(tracks, "eps updater of node 1"), 1);
  EXPECT_EQ(std::ranges::count(tracks, "eps worker of node 0 1"), 1);
  const auto both_have = [&](int layer) {
    return std::ranges::all_of(layers, [&](const auto& updater) { return updater.second.contains(layer); });
  };
  EXPECT_FALSE(both_have(kFirstBlock));  // layers of one group
  EXPECT_FALSE(both_have(kSecondBlock));
}

TEST(Lanes, ALaneWithoutWorkersIsRefused) {
  TestMemory memory;
  Failure failure;
  StoreOptions options = with_lanes(false);
  options.placement.lanes[1].workers = 0;
  EXPECT_THROW(ParameterStore(toy_layout(), options, memory, failure, nullptr), BadInput);
}

}  // namespace
}  // namespace l2l::eps::testing
