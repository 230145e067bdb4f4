// Which values of a forward pass to keep for the backward pass: the fewest bytes from which the ops that may run again
// rebuild the rest. A smallest cut of the graph (He and Yu, "Transcending runtime-memory tradeoffs in checkpointing by
// being fusion aware", MLSys 2023, section 3): flow comes from what cannot be computed again, goes along ops, may pass
// a value at the price of its bytes, and ends in what the backward pass reads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace l2l::compiler::remat {

using ValueIndex = std::uint32_t;
using OpIndex = std::uint32_t;

struct CutValue {
  Bytes bytes = 0;
  bool given = false;    // there in the backward pass anyway: layer input, weights
  bool needed = false;   // a backward op reads it
  bool keepable = true;  // may be kept
};

struct CutOp {
  std::vector<ValueIndex> inputs = {};
  std::vector<ValueIndex> outputs = {};  // running it again gives all of them
  bool banned = false;                   // may not run again
};

// Plain data. Ops stand in the order of the forward pass: an op reads only outputs of ops before it and values that no
// op writes. A value has one op that writes it, or none; then it is given, or kept, or lost.
struct CutProblem {
  std::vector<CutValue> values = {};
  std::vector<CutOp> ops = {};
};

struct Cut {
  std::vector<ValueIndex> keep = {};    // ascending; no given ones
  Bytes bytes = 0;                      // of what is kept
  std::vector<OpIndex> recompute = {};  // ops to run again, in this order
};

// The fewest bytes. Among those the choice nearest to the backward pass: the ops it runs again run again in every other
// choice of as few bytes. So the answer is unique but for values of zero bytes, which are kept where that saves an op.
// Throws BadInput when a value is needed that can be neither kept nor recomputed, or ops are out of order.
Cut min_cut(const CutProblem& problem);

// The ops to run again when `keep` is kept, in order; for choices made otherwise. Throws as min_cut().
std::vector<OpIndex> ops_to_recompute(const CutProblem& problem, const std::vector<ValueIndex>& keep);

}  // namespace l2l::compiler::remat
