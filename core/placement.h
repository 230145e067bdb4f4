// Where the parameter server's workers run: how many on which NUMA node, and which core is left to those who feed a
// device.
#pragma once

#include <string>
#include <vector>

#include "core/topology.h"

namespace l2l {

// The workers of one NUMA node: a pool and the thread that leads it.
struct WorkerLane {
  int node = 0;
  int workers = 1;        // the leading thread included
  std::vector<int> cpus;  // that they share, ascending
};

struct PlacementRequest {
  int threads = 0;            // workers in all; 0: one for each CPU that may be used and is not reserved
  bool feeds_device = false;  // a thread of ours feeds a device that has a processor of its own
  int device_node = -1;       // NUMA node nearest to that; -1: unknown
};

struct Placement {
  std::vector<WorkerLane> lanes;  // by node
  std::vector<int> feeder;        // CPUs of the core that is left to the feeding thread; empty: none
  // Threads are kept on the CPUs of their lane and memory comes from its node. Not where nothing is gained: with one
  // node and nothing to keep clear of, the scheduler knows better.
  bool bound = false;
  int limit = 1;     // cores that the process may use
  bool ours = true;  // Topology::ours
  int workers() const;
};

// Pure. Without a wish no more workers than cores that the process may use, nor than CPUs; a wish is granted. The first
// core of the device's node (unknown: of the first node) is left to the feeder where two cores are there. Workers are
// spread over the nodes by their CPUs; a node that gets none has no lane; there is always one. Of a core with several
// hardware threads one is used as long as there are no more workers than cores.
Placement place_workers(const Topology& topology, const PlacementRequest& request);

// "7 workers: 3 on node 0 (CPUs 1-3), 4 on node 1 (CPUs 4-7); core of CPU 0 feeds the device"
std::string describe(const Placement& placement);

}  // namespace l2l
