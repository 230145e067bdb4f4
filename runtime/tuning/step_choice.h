// Which of several proposals becomes the decisions of a run, by measured steps. Measurements are noisy.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "runtime/tuning/proposals.h"

namespace l2l::runtime {

// A step over another run's.
struct StepRatio {
  double value;  // the median over rounds, of the fastest steps in each
  double noise;  // relative: by how much two such ratios of equal runs differ; about the standard error
};
constexpr StepRatio kUnknownStep{std::numeric_limits<double>::infinity(), 0};
inline bool is_unknown(const StepRatio& step) { return step.value == kUnknownStep.value; }

// Indices of steps that may be the shortest, as far as their noise lets one say, and are not known well. `steps` is not
// empty.
std::vector<std::size_t> worth_measuring_again(const std::vector<StepRatio>& steps);
// Index of the first step that is not known to be longer than the shortest one: `steps`, not empty, are in the order of
// their predictions.
std::size_t shortest_of(const std::vector<StepRatio>& steps);

// The proposal to take. `proposals` are in the order of propose(), one at least; `ratios`: of their steps, all over the
// same run's; empty where none was measured. Where that of the first proposal is unknown, measurements say nothing
// against its prediction, and it is taken.
const Proposal& decide(const std::vector<Proposal>& proposals, const std::vector<StepRatio>& ratios);

}  // namespace l2l::runtime
