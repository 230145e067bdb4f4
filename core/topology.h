// The part of the machine that this process may use: NUMA nodes, cores, caches. Two files to link: topology_hwloc.cpp,
// and topology_plain.cpp for machines without hwloc, which knows one node.
#pragma once

#include <string>
#include <vector>

#include "core/affinity.h"
#include "core/bytes.h"

namespace l2l {

// A physical core: the numbers of its hardware threads that may be used, ascending, at least one.
struct Core {
  std::vector<int> cpus;
};

struct NumaNode {
  int id = 0;               // as the system numbers it
  std::vector<Core> cores;  // at least one
  Bytes memory = 0;         // 0: unknown, here and below
  Bytes l2 = 0;             // of a core
  Bytes l3 = 0;             // of the node
  int cpus() const;
};

struct Topology {
  std::vector<NumaNode> nodes;  // that have CPUs of ours, at least one
  int limit = 1;                // cores that affinity mask and control groups leave, at least 1
  bool ours = true;             // false: of a machine that hwloc was told of (HWLOC_XMLFILE), where nobody can be bound
  int cpus() const;
};

// Of the calling thread, now. With hwloc its environment holds: HWLOC_XMLFILE names the description of another machine.
Topology read_topology();

// For both files: the machine as one node, its CPUs those of `allowed`, each a core of its own.
Topology single_node(const CpuSet& allowed);
// Nodes as the linked file sees them, of the CPUs in `allowed`; `limit` is left alone.
Topology discover_topology(const CpuSet& allowed);

}  // namespace l2l
