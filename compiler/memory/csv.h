// Problems and plans as CSV (docs/formats.md, Allocation problems).
#pragma once

#include <iosfwd>
#include <string>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Throws BadInput naming file, line and column for what cannot be a problem; at the first line that shows it, in memory
// and time in proportion to the file.
Problem read_csv(const std::string& file, Bytes alignment = 1);
// The same of a stream that is called `name` in messages.
Problem read_csv(std::istream& stream, const std::string& name, Bytes alignment = 1);

// The problem with the offsets of `plan`: read again, all tensors are pinned there. Throws Error when it cannot be
// written.
void write_csv(const std::string& file, const Problem& problem, const Plan& plan);
void write_csv(std::ostream& stream, const Problem& problem, const Plan& plan);

}  // namespace l2l::compiler::memory
