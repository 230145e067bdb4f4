// The part of the machine that this process may use: NUMA nodes, cores, caches. One of two files is linked:
// topology_hwloc.cpp, or topology_plain.cpp for machines without hwloc, which knows one node.
#pragma once

#include <string>
#include <vector>

#include "core/affinity.h"
#include "core/bytes.h"

namespace l2l {

// A physical core: its usable hardware threads, ascending, at least one.
struct Core {
  std::vector<int> cpus;
};

struct NumaNode {
  int id = 0;               // the system's number
  std::vector<Core> cores;  // at least one
  Bytes memory = 0;         // 0: unknown, here and below
  Bytes l2 = 0;             // of a core
  Bytes l3 = 0;             // of the node
  int cpus() const;
};

struct Topology {
  std::vector<NumaNode> nodes;  // with usable CPUs; at least one
  int limit = 1;                // cores allowed by affinity mask and control groups, at least 1
  bool ours = true;             // false: a machine described to hwloc (HWLOC_XMLFILE); threads cannot be bound
  int cpus() const;
  Bytes caches() const;  // of all nodes, as far as they are known
};

// As the calling thread may use the machine now. With hwloc, HWLOC_XMLFILE may name the description of another machine.
Topology read_topology();

// For both files: one node with the CPUs in `allowed`, each a core of its own.
Topology single_node(const CpuSet& allowed);
// Defined by the linked file: the nodes of the CPUs in `allowed`, without `limit`.
Topology discover_topology(const CpuSet& allowed);

}  // namespace l2l
