// What the blocks of a model keep and what they recompute: the programs of a policy (device/recompute) in the place of
// those that keep the layer input alone, and where they keep it. Embedding and head have no choice: one recomputes next
// to nothing, the other goes forward straight into backward.
#pragma once

#include <string>
#include <vector>

#include "compiler/autodiff/differentiate.h"
#include "compiler/remat/policy.h"
#include "models/model.h"
#include "runtime/plan/block_place.h"

namespace l2l::runtime {

// The two programs of blocks that do the same.
struct BlockPolicy {
  std::string name;  // "min_cut", "6 of 11 values"
  compiler::Visits visits;
};

struct Recomputation {
  std::vector<BlockPolicy> policies;
  std::vector<int> of_block;             // of blocks 1, 2, ...: index into policies
  std::vector<std::string> explanation;  // lines for people; none for a policy that was asked for
};

// All that is decided block by block.
struct Arrangement {
  Recomputation recomputation;
  std::vector<BlockPlace> places;  // of blocks 1, 2, ...; none: what the options say
};

// The same policy for all blocks. Throws BadInput when a block's graph has no derivative.
Recomputation uniform_recomputation(const models::Model& model, compiler::remat::Policy policy);

// For a model like that of `arrangement` with fewer blocks: what its blocks do at about the same place.
Arrangement resampled(const Arrangement& arrangement, int blocks);

// Throws Error where plans of the policies' graphs (compiler/remat/verifier.h) do not compute what the plain ones of
// the block do.
void verify(const Recomputation& recomputation, const models::Model& model);
// Gives each block the programs of its policy; blocks of one type and policy share theirs.
void apply(const Recomputation& recomputation, models::Model& model);

}  // namespace l2l::runtime
