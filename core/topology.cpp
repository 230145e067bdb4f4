#include "core/topology.h"

#include <unistd.h>

#include <algorithm>

#include "core/workers.h"

namespace l2l {
namespace {

Bytes system_value(int name) {
  const long value = sysconf(name);
  return value > 0 ? static_cast<Bytes>(value) : 0;
}

}  // namespace

int NumaNode::cpus() const {
  int count = 0;
  for (const Core& core : cores) count += static_cast<int>(core.cpus.size());
  return count;
}

int Topology::cpus() const {
  int count = 0;
  for (const NumaNode& node : nodes) count += node.cpus();
  return count;
}

Bytes Topology::caches() const {
  Bytes sum = 0;
  for (const NumaNode& node : nodes) sum += node.l3 + node.cores.size() * node.l2;
  return sum;
}

Topology single_node(const CpuSet& allowed) {
  NumaNode node;
  for (const int cpu : allowed.list()) node.cores.push_back({{cpu}});
  if (node.cores.empty()) node.cores.push_back({{0}});  // the system does not say
  node.memory = system_value(_SC_PHYS_PAGES) * system_value(_SC_PAGESIZE);
  node.l2 = system_value(_SC_LEVEL2_CACHE_SIZE);
  node.l3 = system_value(_SC_LEVEL3_CACHE_SIZE);
  Topology topology;
  topology.nodes.push_back(std::move(node));
  return topology;
}

Topology read_topology() {
  const CpuSet allowed = CpuSet::of_thread();
  Topology topology = discover_topology(allowed);
  if (topology.nodes.empty()) topology = single_node(allowed);
  topology.limit = available_cores();
  return topology;
}

}  // namespace l2l
