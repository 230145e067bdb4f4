// Runs whole graphs in float64, each op by its reference.
#pragma once

#include <array>
#include <span>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {

// What lies behind each region, element by element, of whatever dtype: element i of a value is its offset / the size of
// its elements + i.
struct RegionTensors {
  std::array<Tensor, static_cast<std::size_t>(compiler::Region::count)> regions;
  Tensor& operator[](compiler::Region region) { return regions[static_cast<std::size_t>(region)]; }
  const Tensor& operator[](compiler::Region region) const { return regions[static_cast<std::size_t>(region)]; }
};

// Regions that are too small grow, filled with zeros.
void run_graph(const compiler::Graph& graph, RegionTensors& memory, const device::LaunchParameters& parameters);

// The same of devices over which a layer is split, whose graphs have the same kinds of ops: one op of all of them after
// the other.
void run_split_graphs(std::span<const compiler::Graph* const> graphs, std::span<RegionTensors> memories,
                      const device::LaunchParameters& parameters);

}  // namespace l2l::test
