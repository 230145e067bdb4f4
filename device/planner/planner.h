// Offsets for tensors with lifetimes: problem, solver, and an independent validator.
#pragma once

#include <string>
#include <vector>

#include "core/bytes.h"

namespace l2l::device::planner {

// Alive in [lower, upper), half-open, in any unit of time.
struct Tensor {
  std::string name;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  Bytes size = 0;
};

struct Problem {
  std::vector<Tensor> tensors;
  Bytes alignment = 64;  // of every offset; a power of two
};

struct Plan {
  std::vector<Bytes> offsets;  // per tensor
  Bytes footprint = 0;         // highest end
};

// Greedy by size, best fit. Deterministic. Tensors without bytes or lifetime get offset 0. Throws BadInput when the
// alignment is no power of two or an offset does not fit in 64 bits; so does live_load() for its sum.
Plan plan(const Problem& problem);

// Largest sum of sizes alive at once: no plan can be smaller.
Bytes live_load(const Problem& problem);

// Independent of plan(): every pair alive at once is disjoint, offsets are aligned, footprint is the highest end.
// Returns an empty string, or what is wrong, naming the tensors.
std::string validate(const Problem& problem, const Plan& plan);

}  // namespace l2l::device::planner
