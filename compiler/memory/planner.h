// Memory planning: the plain entry point, the check of a problem, and a validator that is independent of the solvers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Deterministic, on every machine. Throws what check() throws.
Plan plan(const Problem& problem);

// Throws BadInput, naming the tensor, unless all of this holds: the alignment is a power of two; every tensor has
// clocks of `streams` entries, with begin <= end; sizes and pinned offsets sum to less than 2^62 bytes; groups have
// members that exist, each in one group; pinned offsets are aligned (of a group: its first tensor's) and agree within a
// group; no two pinned tensors alive at once overlap. `where(tensor)`, if given, starts the message.
void check(const Problem& problem, const std::function<std::string(Index)>& where = {});

// Checks a plan of a problem that check() accepts: tensors alive at once are disjoint, offsets are aligned, groups
// contiguous, pinned tensors in their place, and the footprint is the highest end. Returns an empty string, or what is
// wrong, naming the tensors.
std::string validate(const Problem& problem, const Plan& plan);

// Two tensors that are alive at once, and of which the plan gives the same byte to both.
struct Clash {
  Index tensor = 0, other = 0;
};
// The part of validate() that finds one; nothing where there is none.
std::optional<Clash> find_clash(const Problem& problem, const Plan& plan);

}  // namespace l2l::compiler::memory
