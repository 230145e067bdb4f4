// Which of several steps is the shortest, where measurements are noisy.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/tuning/shallow_run.h"

namespace l2l::runtime {

// Both take one step at least.

// Indices of steps that may be the shortest, as far as their noise lets one say, and are not known well.
std::vector<std::size_t> worth_measuring_again(const std::vector<StepRatio>& steps);
// Index of the first step that is not known to be longer than the shortest one: `steps` are in the order of their
// predictions.
std::size_t shortest_of(const std::vector<StepRatio>& steps);

}  // namespace l2l::runtime
