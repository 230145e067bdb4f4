// Placement of the parameter server's workers on NUMA nodes; one core may be left to the thread that feeds a device.
#pragma once

#include <string>
#include <vector>

#include "core/topology.h"

namespace l2l {

// The workers of one NUMA node: a pool and the thread that leads it.
struct WorkerLane {
  int node = 0;
  int workers = 1;        // the leading thread included
  std::vector<int> cpus;  // shared by them, ascending
};

struct PlacementRequest {
  int threads = 0;            // total workers; 0: one for each usable CPU that is not reserved
  bool feeds_device = false;  // a thread feeds a device with a processor of its own
  int device_node = -1;       // NUMA node nearest to the device; -1: unknown
};

struct Placement {
  std::vector<WorkerLane> lanes;  // by node
  std::vector<int> feeder;        // CPUs of the core left to the feeding thread; empty: none
  // Threads are kept on the CPUs of their lane, and memory comes from its node. False with one node and no feeder,
  // where binding gains nothing.
  bool bound = false;
  int limit = 1;     // cores that the process may use
  bool ours = true;  // Topology::ours
  int workers() const;
};

// Pure. A requested number of threads is granted; otherwise there are at most as many workers as CPUs and as cores that
// the process may use. With two cores or more, the first core of the device's node (unknown: of the first node) is left
// to the feeder. Workers are spread over the nodes in proportion to their CPUs; a node without workers has no lane, and
// there is at least one lane. One hardware thread per core is used unless there are more workers than cores.
Placement place_workers(const Topology& topology, const PlacementRequest& request);

// "7 workers: 3 on node 0 (CPUs 1-3), 4 on node 1 (CPUs 4-7); core of CPU 0 feeds the device"
std::string describe(const Placement& placement);

}  // namespace l2l
