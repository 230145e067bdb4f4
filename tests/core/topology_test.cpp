// The topology against what the system says by other ways. Built twice, once for each file of core/topology.
#include "core/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "core/workers.h"

namespace l2l {
namespace {

std::vector<int> all_cpus(const Topology& topology) {
  std::vector<int> cpus;
  for (const NumaNode& node : topology.nodes) {
    for (const Core& core : node.cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

TEST(Topology, HasTheCpusOfTheAffinityMaskEachOnce) {
  const Topology topology = read_topology();
  EXPECT_TRUE(topology.ours);
  EXPECT_EQ(all_cpus(topology), CpuSet::of_thread().list());
  EXPECT_EQ(topology.cpus(), static_cast<int>(all_cpus(topology).size()));
  EXPECT_EQ(topology.limit, available_cores());
  for (const NumaNode& node : topology.nodes) EXPECT_FALSE(node.cores.empty());
}

TEST(Topology, OfOneCpuIsOneCore) {
  const std::vector<int> cpus = CpuSet::of_thread().list();
  Topology topology;
  std::thread([&] {
    if (CpuSet({cpus.back()}).apply()) topology = read_topology();
  }).join();
  if (topology.nodes.empty()) GTEST_SKIP() << "threads cannot be bound here";
  EXPECT_EQ(all_cpus(topology), std::vector<int>{cpus.back()});
  EXPECT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.limit, 1);
}

TEST(Topology, NodesHaveTheMemoryOfTheMachine) {
  Bytes memory = 0;
  for (const NumaNode& node : read_topology().nodes) memory += node.memory;
  const auto physical = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(static_cast<double>(memory), 0);
  EXPECT_LE(static_cast<double>(memory), 1.01 * physical);
}

TEST(CpuSet, HoldsWhatItWasGiven) {
  const CpuSet cpus({5, 0, 64, 8191, -1, 8192});
  EXPECT_EQ(cpus.list(), (std::vector<int>{0, 5, 64, 8191}));
  EXPECT_TRUE(cpus.contains(64));
  EXPECT_FALSE(cpus.contains(63));
  EXPECT_FALSE(cpus.contains(-1));
  EXPECT_FALSE(cpus.contains(8192));
  EXPECT_FALSE(cpus.empty());
  EXPECT_TRUE(CpuSet().empty());
}

}  // namespace
}  // namespace l2l
