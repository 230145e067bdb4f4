// What the blocks of a run may do, each with its bytes and what it takes on this machine: what decisions are made from.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/decisions.h"
#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// Seconds of link, of one copy.
struct CopySeconds {
  double to_host = 0, to_device = 0;
};

// The two programs of a block under one policy, for one microbatch.
struct BlockProgram {
  BlockPolicy policy;
  Cost forward, backward;  // sums over their ops
  Bytes saved = 0;         // kept between the visits beside the layer input
  Bytes forward_scratch = 0, backward_scratch = 0;
  CopySeconds saved_copy = {};
};

// A value that the backward visit reads: kept, or recomputed.
struct SavableValue {
  compiler::ValueId value;
  double recomputed = 0;  // seconds that doing without it alone adds to the backward visit
};

// Of the blocks of one type.
struct BlockCandidates {
  std::vector<int> blocks;  // their numbers
  std::vector<SavableValue> values;
  std::vector<BlockProgram> programs;  // ascending in `saved`, descending in time of the backward visit
  CopySeconds input_copy = {};         // of a layer input
  double wire_seconds = 0;             // link to the device, each time the weights of a block cross it
  double gradient_seconds = 0;         // link to the host
};

struct Candidates {
  std::vector<BlockCandidates> types;
  ArenaPlan::Scratch scratch;    // of programs that are not a block's own, by phase
  double seconds_elsewhere = 0;  // of a step's launches in embedding and head; where the microbatch is to be chosen
};

// Sets of values to keep, from few to many: always those that save most seconds per byte (Dantzig 1957). With at most
// 12 values, no set saves more than a mixture, of the same mean bytes, of blocks that keep one of these sets and blocks
// that keep the next, as far as savings add up.
std::vector<std::vector<compiler::ValueId>> sets_to_keep(const compiler::Graph& forward,
                                                         const std::vector<SavableValue>& values);

// The programs: what the fixed policies keep, and what sets_to_keep() has. Measures what is not known, and compiles
// programs for their scratch. Of a run whose blocks keep their inputs.
Candidates block_candidates(const RunParts& parts, StepCosts& costs);

// What each op of a graph of `layer` takes, run alone, in their order; equal ops are measured once.
std::vector<Cost> op_costs(StepCosts& costs, const compiler::Graph& graph, LayerIndex layer);

Bytes scratch_bytes(device::Device& device, const compiler::Graph& graph);

}  // namespace l2l::runtime
