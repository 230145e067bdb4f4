// A picture of a plan: time from left to right, addresses upwards.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// One colour per purpose, which is a tensor's name up to its first '/', or without one its size in powers of 16; `peak`
// has a black edge. Of several streams, time is the sum of a clock's entries. Of more than 50,000 tensors the largest
// are drawn. Throws Error when it cannot be written.
void write_svg(const std::string& file, const Problem& problem, const Plan& plan, const std::vector<Index>& peak);
void write_svg(std::ostream& stream, const Problem& problem, const Plan& plan, const std::vector<Index>& peak);

}  // namespace l2l::compiler::memory
