// The heaviest set of tensors of which no two can share memory.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// `tensors` are alive, and sorted by begin (interference.h); `weights` (bytes) are per tensor of the problem. Returns
// the antichain, ascending. Needs a bit for each pair of tensors, and a maximum flow over the pairs of which one
// follows the other with none between. Returns nothing where there are more than kMostCovers such pairs, where the flow
// takes more than kMostFlowSteps, or when stop(), called now and then, is true.
std::optional<std::vector<Index>> heaviest_antichain(const Problem& problem, const std::vector<Index>& tensors,
                                                     const std::vector<Bytes>& weights,
                                                     const std::function<bool()>& stop = {});
// Limits that do not depend on the clock.
inline constexpr std::size_t kMostCovers = 5'000'000;         // 250 MB
inline constexpr std::uint64_t kMostFlowSteps = 400'000'000;  // looks at an edge: some seconds

}  // namespace l2l::compiler::memory
