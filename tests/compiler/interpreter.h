// A float64 interpreter of graphs, written from the definitions in ops.def alone: the oracle for differentiate().
#pragma once

#include <array>
#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// The elements behind each region, whatever their dtype; element i of a value lies at offset / element size + i.
struct Memory {
  std::array<std::vector<double>, static_cast<std::size_t>(Region::count)> regions;
  std::vector<double>& operator[](Region region) { return regions[static_cast<std::size_t>(region)]; }
};

// Elements of `region` that `graph` touches.
std::size_t region_elements(const Graph& graph, Region region);

// Runs `graph`. Regions that are too small grow, filled with zeros. Dropout masks are a fixed function of rng_op and
// element; loss_scale is 1.
void interpret(const Graph& graph, Memory& memory);

}  // namespace l2l::compiler
