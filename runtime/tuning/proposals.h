// Decisions for all blocks that fit in memory, with the step that they are predicted to make. Pure functions of the
// candidates: a problem of compiler/remat/chain.h, and what becomes of its answers.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/remat/chain.h"
#include "runtime/tuning/block_candidates.h"

namespace l2l::runtime {

// So many blocks of one type do this.
struct BlockShare {
  std::size_t program;  // of BlockCandidates::programs
  BlockPlacement placement;
  std::size_t blocks;
  bool operator==(const BlockShare&) const = default;
};

struct Proposal {
  Decisions decisions;
  std::vector<std::vector<BlockShare>> shares;  // by type
  compiler::remat::Nanoseconds time = 0;        // of all blocks in a step
  Bytes crossing = 0;                           // the link, in both directions, of blocks' weights and stashes

  // Of two that take as long, the one that copies less.
  friend bool operator<(const Proposal& a, const Proposal& b) {
    return std::tie(a.time, a.crossing) < std::tie(b.time, b.crossing);
  }
};

struct MemoryLimits {
  Bytes device, host;        // of an arena; of what one device keeps in host memory
  Bytes together;            // of both
  bool leave_enough = true;  // for the run that takes least
};
// What the options, the devices and the machine leave of each.
MemoryLimits memory_limits(const RunParts& parts);

// What all blocks must have in common.
struct Constraint {
  std::optional<StashPlace> stash = {};
  std::string policy = {};  // of types without a program of this name: the one that keeps least; empty: any
};

// The shortest step of all decisions that fit; nothing: none does. What options.transfer sets is not varied.
std::optional<Proposal> shortest(const RunParts& parts, const Candidates& candidates, const Constraint& constraint,
                                 const MemoryLimits& limits);

// The shortest, and the shortest under each constraint that keeps the stash at one place or a fixed policy: those worth
// a comparison by measured steps, the shortest first; empty: nothing fits.
std::vector<Proposal> propose(const RunParts& parts, const Candidates& candidates, const MemoryLimits& limits);

}  // namespace l2l::runtime
