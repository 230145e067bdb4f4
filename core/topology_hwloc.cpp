#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "core/log.h"
#include "core/topology.h"

namespace l2l {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Machine = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

Machine load_machine() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  Machine machine(topology);
  return hwloc_topology_load(topology) == 0 ? std::move(machine) : nullptr;
}

// Size of the caches of one type whose CPUs are on the node: their sum, or that of the largest.
Bytes cache_bytes(hwloc_topology_t machine, hwloc_obj_t node, hwloc_obj_type_t type, bool sum) {
  Bytes bytes = 0;
  for (hwloc_obj_t cache = nullptr; (cache = hwloc_get_next_obj_by_type(machine, type, cache)) != nullptr;) {
    if (!hwloc_bitmap_intersects(cache->cpuset, node->cpuset)) continue;
    bytes = sum ? bytes + cache->attr->cache.size : std::max<Bytes>(bytes, cache->attr->cache.size);
  }
  return bytes;
}

// CPUs of `cpuset` on the node that are not in `taken`; adds them to it. A CPU may be near several nodes (memory of
// several kinds): it belongs to the first.
std::vector<int> take_cpus(hwloc_const_bitmap_t cpuset, hwloc_obj_t node, const CpuSet* allowed,
                           std::vector<int>& taken) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(cpuset); cpu >= 0; cpu = hwloc_bitmap_next(cpuset, cpu)) {
    const bool here = hwloc_bitmap_isset(node->cpuset, static_cast<unsigned>(cpu)) != 0;
    if (!here || (allowed != nullptr && !allowed->contains(cpu)) || std::ranges::count(taken, cpu) > 0) continue;
    cpus.push_back(cpu);
  }
  taken.insert(taken.end(), cpus.begin(), cpus.end());
  return cpus;
}

// Hardware threads count as cores where hwloc knows no cores.
hwloc_obj_type_t core_type(hwloc_topology_t machine) {
  return hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

std::vector<Core> cores_of(hwloc_topology_t machine, hwloc_obj_t node, const CpuSet* allowed, std::vector<int>& taken) {
  std::vector<Core> cores;
  const hwloc_obj_type_t type = core_type(machine);
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(machine, type, core)) != nullptr;) {
    std::vector<int> cpus = take_cpus(core->cpuset, node, allowed, taken);
    if (!cpus.empty()) cores.push_back({std::move(cpus)});
  }
  return cores;
}

}  // namespace

// Nodes without CPUs (memory attached by CXL, say) are left out.
Topology discover_topology(const CpuSet& allowed) {
  const Machine owner = load_machine();
  if (!owner) {
    log(LogLevel::warning, "hwloc cannot read the topology: the machine is taken for one node");
    return single_node(allowed);
  }
  const hwloc_topology_t machine = owner.get();
  Topology topology;
  topology.ours = hwloc_topology_is_thissystem(machine) != 0;
  const CpuSet* const mask = topology.ours && !allowed.empty() ? &allowed : nullptr;
  std::vector<int> taken;
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    NumaNode found;
    found.id = static_cast<int>(node->os_index);
    found.cores = cores_of(machine, node, mask, taken);
    if (found.cores.empty()) continue;
    found.memory = node->attr->numanode.local_memory;
    found.l2 = cache_bytes(machine, node, HWLOC_OBJ_L2CACHE, /*sum=*/false);
    found.l3 = cache_bytes(machine, node, HWLOC_OBJ_L3CACHE, /*sum=*/true);
    topology.nodes.push_back(std::move(found));
  }
  return topology;
}

}  // namespace l2l
