// Memory planning problems and plans as CSV files (docs/formats.md, Allocation problems).
#pragma once

#include <iosfwd>
#include <string>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// The alignment is 1. Throws BadInput, naming file, line and column, at the first line that cannot be part of a
// problem. Memory and time are in proportion to the file.
Problem read_csv(const std::string& file);
// `name` stands for the file in messages.
Problem read_csv(std::istream& stream, const std::string& name);

// Writes the problem with the plan's offsets; when read again, all tensors are pinned there.
void write_csv(std::ostream& stream, const Problem& problem, const Plan& plan);

}  // namespace l2l::compiler::memory
