// Checks for what a program adds to L2L.
#pragma once

#include <cstdint>

#include "l2l/custom_op.h"
#include "l2l/export.h"

namespace l2l {

// How far `op`'s gradient is from central differences of its forward function: over random directions of x [rows,
// columns], and over others of its `parameters` numbers, the largest difference of the directional derivatives,
// relative to the largest of them; the worse of both. All numbers are drawn from a normal distribution by `seed`. Right
// gradients of smooth functions stay below 0.01; fp32 allows little less. Infinity where a number is not finite, or dx
// or y is not written; rows come in two calls, and dparameters hold numbers before. Throws BadInput where a function is
// missing, and for more than 2^31 numbers.
L2L_API double gradient_error(const CustomOp& op, std::int64_t rows, std::int64_t columns, std::int64_t parameters = 0,
                              std::uint64_t seed = 1);

}  // namespace l2l
