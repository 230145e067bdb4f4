// Chooses the values of a forward pass to keep for the backward pass: the fewest bytes from which the rest can be
// recomputed. It is a minimum cut (He and Yu, "Transcending runtime-memory tradeoffs in checkpointing by being fusion
// aware", MLSys 2023, section 3).
#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace l2l::compiler::remat {

using ValueIndex = std::uint32_t;

struct CutValue {
  Bytes bytes = 0;
  bool given = false;    // available in the backward pass anyway: layer input, weights
  bool needed = false;   // a backward op reads it
  bool keepable = true;  // may be kept
};

struct CutOp {
  std::vector<ValueIndex> inputs = {};
  std::vector<ValueIndex> outputs = {};  // running the op again computes all of them
  bool banned = false;                   // may not run again
};

// Plain data. Ops are in the order of the forward pass: an op reads only outputs of earlier ops and values that no op
// writes. Each value is written by one op at most.
struct CutProblem {
  std::vector<CutValue> values = {};
  std::vector<CutOp> ops = {};
};

// The values to keep, ascending, without given ones: minimum bytes; among equal cuts the one nearest to the backward
// pass, which recomputes the fewest ops. Values of zero bytes are kept where that saves an op. Throws BadInput when a
// needed value can be neither kept nor recomputed, or when ops are out of order.
std::vector<ValueIndex> min_cut(const CutProblem& problem);

}  // namespace l2l::compiler::remat
