// How far stored moments may be from what they were.
#pragma once

#include "optimizers/format.h"

namespace l2l::testing {

// Largest error of one rounding, relative to the value (bf16), or to the largest magnitude of its lane in the block
// (int8).
constexpr double error_bound(optimizers::MomentFormat format) {
  using optimizers::MomentFormat;
  return format == MomentFormat::f32 ? 0 : format == MomentFormat::bf16 ? 0x1p-7 : 8.0 / 247 + 0x1p-7;
}

}  // namespace l2l::testing
