// Memory planning problems and plans as CSV files (docs/formats.md, Allocation problems).
#pragma once

#include <iosfwd>
#include <string>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Throws BadInput, naming file, line and column, at the first line that cannot be part of a problem. Memory and time
// are in proportion to the file.
Problem read_csv(const std::string& file, Bytes alignment = 1);
// `name` stands for the file in messages.
Problem read_csv(std::istream& stream, const std::string& name, Bytes alignment = 1);

// Writes the problem with the plan's offsets; when read again, all tensors are pinned there. Throws Error when the file
// cannot be written.
void write_csv(const std::string& file, const Problem& problem, const Plan& plan);
void write_csv(std::ostream& stream, const Problem& problem, const Plan& plan);

}  // namespace l2l::compiler::memory
