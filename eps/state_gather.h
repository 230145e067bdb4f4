// Brings the state of groups from all ranks to one of them, which writes it into a checkpoint, or to rank 0, which
// hashes it; and what ranks agree on that save or load together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "eps/parameter_store.h"
#include "eps/state_save.h"
#include "l2l/errors.h"

namespace l2l::eps {

// What one rank found, thrown on all: none of them ends alone.
class FailureOfAll : public Error {
 public:
  using Error::Error;
};

// Of several ranks, all of which make the same calls in the same order. Thread-bound: whoever reads the state.
class StateGather {
 public:
  // Both must outlive this object.
  StateGather(ParameterStore& store, collectives::Collectives& ranks) : store_(store), ranks_(ranks) {}

  Rank place() const { return {ranks_.rank(), ranks_.size()}; }
  bool first() const { return ranks_.rank() == 0; }

  // Runs `body` on every rank and returns what it returned on each. Where it throws on any, all throw: of the first
  // that did, a CorruptFile or other BadInput as that, all else as FailureOfAll, with rank and message. A rank on which
  // it throws one of these two, or CorruptState, throws that. `body` may exchange only what every rank takes part in,
  // whatever it throws: the calls below see to that.
  std::vector<std::string> together(const std::function<std::string()>& body);

  // A save goes through the groups in rounds, each of which brings one group at most to every writer. The groups of the
  // next round, in the order of rank 0, handed out by `save`; none at the end.
  std::vector<GroupIndex> next_round(StateSave& save);
  // Afterwards the store of each one's writer reads the whole group, until the next round, and `save` may release it
  // everywhere. `gives_up`: this rank cannot write any more. False where any rank gives up. Throws CorruptState as
  // ParameterStore::check_state() does, and what this rank cannot prepare; the others then give up.
  bool gather_round(std::span<const GroupIndex> groups, bool gives_up);
  void end_rounds() { store_.forget_gathered(); }

  // ParameterStore::read(), on all ranks.
  void read(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first, std::span<float> values);
  // ParameterStore::state_hash() of all ranks' state.
  std::uint64_t state_hash();

 private:
  // To rank 0. Throws Error where another rank throws CorruptState.
  void gather(GroupIndex group);
  bool agree_on_state(std::span<const GroupIndex> groups, bool gives_up);

  ParameterStore& store_;
  collectives::Collectives& ranks_;
};

}  // namespace l2l::eps
