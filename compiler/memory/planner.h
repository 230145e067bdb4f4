// Offsets for tensors with lifetimes: the simple entry, what a problem must hold, and a validator independent of
// solvers.
#pragma once

#include <functional>
#include <string>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Deterministic. Calls check(). Tensors without bytes or lifetime get offset 0 unless pinned or in a group.
Plan plan(const Problem& problem);

// Throws BadInput, naming the tensor, unless: the alignment is a power of two; there are clocks of `streams` entries
// for every tensor, with begin <= end; sizes and pinned offsets sum to less than 2^62 bytes; groups have members that
// exist, each in one group; pinned offsets are aligned (of a group: its first tensor's), agree within a group, and no
// two pinned tensors alive at once overlap. `where` is put before the message for the tensor at fault.
void check(const Problem& problem, const std::function<std::string(Index)>& where = {});

// Independent of all solvers: tensors neither of which is done before the other begins are disjoint, offsets are
// aligned, groups exact, pinned tensors where they must be, and the footprint is the highest end. Returns an empty
// string, or what is wrong, naming the tensors. Takes any problem that check() accepts and any plan.
std::string validate(const Problem& problem, const Plan& plan);

}  // namespace l2l::compiler::memory
