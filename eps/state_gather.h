// Brings the state of groups from all ranks to rank 0, which writes checkpoints and hashes.
#pragma once

#include <optional>
#include <string>

#include "collectives/collectives.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Of several ranks, all of which make the same calls in the same order. Thread-bound: whoever reads the state.
class StateGather {
 public:
  // Both must outlive this object.
  StateGather(ParameterStore& store, collectives::Collectives& ranks) : store_(store), ranks_(ranks) {}

  bool first() const { return ranks_.rank() == 0; }
  // A save goes through the groups in the order of rank 0: begin_groups(), announce() for each, end_groups(), which
  // does nothing the second time. The others ask by announced(), which has nothing at the end.
  void begin_groups() { ended_ = false; }
  void announce(GroupIndex group) { say(group); }
  void end_groups();
  std::optional<GroupIndex> announced();
  // What rank 0 says, on all ranks.
  std::string from_first(const std::string& text);
  // Afterwards the store of rank 0 reads the whole group, until the next one, or the end of the groups. The group must
  // be one that may be read. Throws CorruptState as ParameterStore::check_state() does, and on rank 0 Error where
  // another rank throws that.
  void gather(GroupIndex group);
  // ParameterStore::read(), on all ranks.
  void read(GroupIndex group, std::size_t parameter, StatePart part, std::int64_t first, std::span<float> values);
  // ParameterStore::state_hash() of all ranks' state.
  std::uint64_t state_hash();

 private:
  GroupIndex say(GroupIndex group);

  ParameterStore& store_;
  collectives::Collectives& ranks_;
  bool ended_ = true;
};

}  // namespace l2l::eps
