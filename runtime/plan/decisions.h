// What is decided block by block before a run is planned: what blocks keep and what they recompute
// (compiler/remat), and where they keep it. Embedding and head have no choice: one recomputes next to nothing, the
// other goes forward straight into backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/autodiff/differentiate.h"
#include "compiler/remat/policy.h"
#include "models/model.h"
#include "runtime/plan/block_placement.h"

namespace l2l::runtime {

// The two programs of blocks that do the same.
struct BlockPolicy {
  std::string name;  // "min_cut", "6 of 11 values"
  compiler::Visits visits;
};

struct Decisions {
  std::vector<BlockPolicy> policies = {};        // none where blocks rebuild their inputs
  std::vector<int> policy_of = {};               // of blocks 1, 2, ...: index into policies
  std::vector<BlockPlacement> placements = {};   // of blocks 1, 2, ...
  std::optional<std::int64_t> micro_batch = {};  // sequences, where that was left open
  std::string summary = {};                      // what blocks keep, for people; empty where the options decide
  std::vector<std::string> explanation = {};     // why, in lines
  Bytes peak = 0;                                // of the process, where choosing has raised it
};

// The same policy for all blocks, without placements. Throws BadInput when a block's graph has no derivative.
Decisions uniform_policy(const models::Model& model, compiler::remat::Policy policy);

// Of a model with `all` blocks, those that stand for it in one with fewer: from the first to the last at equal
// distances; of one, the last. Counted from 0.
std::vector<int> places_of_fewer(int all, int blocks);
// For a model with fewer blocks: each does what the one at about its place does, places_of_fewer().
Decisions resampled(const Decisions& decisions, int blocks);

// `model` with each block's programs those of its policy; blocks of one type and policy share theirs.
models::Model with_policies(models::Model model, const Decisions& decisions);
// The same for a model of shorter sequences: its blocks keep and recompute the same values. `whole`: the model, without
// policies, that the decisions are for.
models::Model with_policies(models::Model shorter, const models::Model& whole, Decisions decisions);
// For the model of another device over which layers are split: its programs are the same ones, of its shares.
Decisions of_share(Decisions decisions, const compiler::Shard& shard);
// Throws Error where plans of the policies' graphs (compiler/remat/verifier.h) do not compute what the plain ones of
// the block do.
void verify(const Decisions& decisions, const models::Model& model);

}  // namespace l2l::runtime
