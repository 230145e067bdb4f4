// A plan as an SVG picture: time from left to right, addresses upwards.
#pragma once

#include <iosfwd>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Colours show a tensor's purpose: its name up to the first '/', or else its size in powers of 16. Tensors in `peak`
// get a black edge. With several streams, time is the sum of a clock's entries. Of more than 50,000 tensors the largest
// are drawn.
void write_svg(std::ostream& stream, const Problem& problem, const Plan& plan, const std::vector<Index>& peak);

}  // namespace l2l::compiler::memory
