// The interference graph: which tensors are alive at the same time.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Over positions in a list of tensors: the neighbours of position i are others[starts[i]] to others[starts[i + 1] - 1],
// ascending.
struct InterferenceGraph {
  std::vector<std::size_t> starts = {0};
  std::vector<Index> others = {};
};

// All tensors that are alive, sorted by begin, then by index.
std::vector<Index> live_tensors(const Problem& problem);

// Takes tensors as live_tensors() returns them. With one stream the graph takes time in proportion to a sort and its
// edges; with several every pair is compared, twice. Returns nothing when stop(), called now and then, is true.
std::optional<InterferenceGraph> interference_graph(const Problem& problem, const std::vector<Index>& tensors,
                                                    const std::function<bool()>& stop = {});

// The number of edges, without the graph; with one stream in the time of a sort. Returns less when stop() is true.
std::uint64_t count_interferences(const Problem& problem, const std::vector<Index>& tensors,
                                  const std::function<bool()>& stop = {});

}  // namespace l2l::compiler::memory
