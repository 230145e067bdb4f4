// Where workers go: exhaustively over small machines against a plain statement of the rules, and cases by hand.
#include "core/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace l2l {
namespace {

// Nodes of `cores` cores with `threads` hardware threads each; a core's further threads are numbered after all cores,
// as Linux does.
Topology machine(int nodes, int cores, int threads = 1, int limit = 0) {
  Topology topology;
  for (int node = 0; node < nodes; ++node) {
    NumaNode made;
    made.id = node;
    for (int core = 0; core < cores; ++core) {
      Core cpus;
      for (int thread = 0; thread < threads; ++thread) {
        cpus.cpus.push_back(thread * nodes * cores + node * cores + core);
      }
      made.cores.push_back(cpus);
    }
    topology.nodes.push_back(made);
  }
  topology.limit = limit > 0 ? limit : topology.cpus();
  return topology;
}

std::string stated(const Topology& topology, const PlacementRequest& request) {
  return describe(place_workers(topology, request));
}

constexpr PlacementRequest kGpu = {.feeds_device = true};

TEST(Placement, OfOneCore) {
  EXPECT_EQ(stated(machine(1, 1), {}), "1 worker on node 0 (CPU 0)");
  EXPECT_EQ(stated(machine(1, 1), kGpu), "1 worker on node 0 (CPU 0)");
}

TEST(Placement, OfTwoCores) {
  EXPECT_EQ(stated(machine(1, 2), {}), "2 workers on node 0 (CPUs 0-1)");
  EXPECT_EQ(stated(machine(1, 2), kGpu), "1 worker on node 0 (CPU 1); core of CPU 0 feeds the device");
}

TEST(Placement, OfTwoNodes) {
  EXPECT_EQ(stated(machine(2, 4), {}), "8 workers: 4 on node 0 (CPUs 0-3), 4 on node 1 (CPUs 4-7)");
  EXPECT_EQ(stated(machine(2, 4), kGpu),
            "7 workers: 3 on node 0 (CPUs 1-3), 4 on node 1 (CPUs 4-7); core of CPU 0 feeds the device");
  EXPECT_EQ(stated(machine(2, 4), {.feeds_device = true, .device_node = 1}),
            "7 workers: 4 on node 0 (CPUs 0-3), 3 on node 1 (CPUs 5-7); core of CPU 4 feeds the device");
}

TEST(Placement, AQuotaOfOneCoreOnManyLeavesOneWorkerThatMayRunAnywhere) {
  EXPECT_EQ(stated(machine(1, 64, 1, 1), {}), "1 worker on node 0 (CPUs 0-63)");
  EXPECT_EQ(stated(machine(1, 64, 1, 1), kGpu), "1 worker on node 0 (CPUs 0-63)");
  EXPECT_EQ(stated(machine(2, 32, 1, 1), {.device_node = 1}), "1 worker on node 1 (CPUs 32-63)");
}

TEST(Placement, AnAffinityMaskOnOneNodeLeavesOneLane) {
  Topology topology = machine(2, 4);
  topology.nodes.erase(topology.nodes.begin());
  topology.limit = 4;
  EXPECT_EQ(stated(topology, {}), "4 workers on node 1 (CPUs 4-7)");
  EXPECT_EQ(stated(topology, {.feeds_device = true, .device_node = 0}),
            "3 workers on node 1 (CPUs 5-7); core of CPU 4 feeds the device");
}

TEST(Placement, AWishIsGrantedAndWhatItExceedsIsSaid) {
  EXPECT_EQ(stated(machine(1, 2), {.threads = 5}),
            "5 workers on node 0 (CPUs 0-1); more than the 2 cores that this process may use");
  EXPECT_EQ(stated(machine(1, 8, 1, 1), {.threads = 2}),
            "2 workers on node 0 (CPUs 0-7); more than the 1 core that this process may use");
  EXPECT_EQ(stated(machine(2, 4), {.threads = 1}), "1 worker on node 0 (CPUs 0-3)");
}

// One hardware thread of each core first; the feeder has all of its core's.
TEST(Placement, CoresComeBeforeHardwareThreads) {
  EXPECT_EQ(stated(machine(1, 4, 2), {.threads = 4}), "4 workers on node 0 (CPUs 0-3)");
  EXPECT_EQ(stated(machine(1, 4, 2), {.threads = 5}), "5 workers on node 0 (CPUs 0-7)");
  EXPECT_EQ(stated(machine(1, 4, 2), kGpu), "6 workers on node 0 (CPUs 1-3, 5-7); core of CPUs 0, 4 feeds the device");
}

TEST(Placement, ThreadsAreBoundWhereThatGainsSomething) {
  EXPECT_FALSE(place_workers(machine(1, 4), {}).bound);
  EXPECT_TRUE(place_workers(machine(1, 4), kGpu).bound);
  EXPECT_TRUE(place_workers(machine(2, 4), {}).bound);
  Topology other = machine(2, 4);
  other.ours = false;
  EXPECT_FALSE(place_workers(other, kGpu).bound);
  EXPECT_NE(stated(other, {}).find("nobody is bound"), std::string::npos);
}

TEST(Placement, UnequalNodesGetWorkersByTheirCpus) {
  Topology topology = machine(2, 6);
  topology.nodes[1].cores.resize(2);
  topology.limit = 4;
  EXPECT_EQ(stated(topology, {}), "4 workers: 3 on node 0 (CPUs 0-5), 1 on node 1 (CPUs 6-7)");
}

void expect_rules(const Topology& topology, const PlacementRequest& request) {
  SCOPED_TRACE(std::to_string(topology.nodes.size()) + " nodes, " + std::to_string(topology.cpus()) + " CPUs, limit " +
               std::to_string(topology.limit) + ", threads " + std::to_string(request.threads) + ", device on node " +
               std::to_string(request.device_node) + ": " + stated(topology, request));
  const Placement placement = place_workers(topology, request);
  const int usable = std::min(topology.limit, topology.cpus());
  std::size_t cores = 0;
  for (const NumaNode& node : topology.nodes) cores += node.cores.size();
  const bool reserves = request.feeds_device && usable >= 2 && cores >= 2;
  // how many
  ASSERT_GE(placement.workers(), 1);
  if (request.threads > 0) {
    EXPECT_EQ(placement.workers(), request.threads);
  } else {
    EXPECT_LE(placement.workers() + (reserves ? 1 : 0), usable);
    if (!request.feeds_device) {
      EXPECT_EQ(placement.workers(), usable);
    }
  }
  // where
  std::set<int> used(placement.feeder.begin(), placement.feeder.end());
  EXPECT_EQ(used.empty(), !reserves);
  int node_before = -1;
  double highest = 0, next = 1e9;  // the highest load of a lane; the lowest with one worker more
  for (const WorkerLane& lane : placement.lanes) {
    EXPECT_GT(lane.node, node_before);
    node_before = lane.node;
    ASSERT_GE(lane.workers, 1);
    ASSERT_FALSE(lane.cpus.empty());
    EXPECT_TRUE(std::ranges::is_sorted(lane.cpus));
    const NumaNode& node = *std::ranges::find(topology.nodes, lane.node, &NumaNode::id);
    std::set<int> here;
    for (const Core& core : node.cores) here.insert(core.cpus.begin(), core.cpus.end());
    for (const int cpu : lane.cpus) {
      EXPECT_TRUE(here.contains(cpu)) << cpu << " is on another node";
      EXPECT_TRUE(used.insert(cpu).second) << cpu << " is used twice, or the feeder's";
    }
    const double room =
        node.cpus() - static_cast<double>(here.contains(placement.feeder.empty() ? -1 : placement.feeder[0])
                                              ? placement.feeder.size()
                                              : 0);
    highest = std::max(highest, lane.workers / room);
    next = std::min(next, (lane.workers + 1) / room);
    EXPECT_TRUE(request.threads > 0 || lane.workers <= static_cast<int>(lane.cpus.size()));
  }
  EXPECT_LE(highest, next + 1e-9) << "a worker would have more room on another node";
}

TEST(Placement, KeepsItsRulesOnEverySmallMachine) {
  for (int nodes = 1; nodes <= 4; ++nodes) {
    for (int cores = 1; cores <= 5; ++cores) {
      for (int threads = 1; threads <= 2; ++threads) {
        for (int limit = 1; limit <= nodes * cores * threads; ++limit) {
          for (int wish = 0; wish <= 7; ++wish) {
            expect_rules(machine(nodes, cores, threads, limit), {wish, false, -1});
            for (int device = -1; device < nodes; ++device) {
              expect_rules(machine(nodes, cores, threads, limit), {wish, true, device});
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace l2l
