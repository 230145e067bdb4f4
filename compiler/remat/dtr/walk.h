// Walks from a storage through evicted ones, along the ops that made them or that read them. Thread-bound.
#pragma once

#include <vector>

#include "compiler/remat/dtr/state.h"

namespace l2l::compiler::remat::dtr {

enum class Direction : std::uint8_t { ancestors, descendants };

class Walk {
 public:
  explicit Walk(const State& state) : state_(state) {}

  // Calls `visit(storage)` once for each storage that is reached, but `start`. The walk goes on behind evicted ones
  // alone.
  template <typename Visit>
  void from(Index start, Direction direction, Visit visit) {
    begin(start);
    while (!open_.empty()) {
      const Index storage = open_.back();
      open_.pop_back();
      const Graph::Storage& node = state_.graph.storages()[storage];
      for (const Index op : direction == Direction::ancestors ? node.makers : node.users) {
        if (op_seen_[op] == turn_) continue;
        op_seen_[op] = turn_;
        const Graph::Node& taken = state_.graph.ops()[op];
        for (const Index next : direction == Direction::ancestors ? taken.reads : taken.writes) {
          if (seen_[next] == turn_) continue;
          seen_[next] = turn_;
          visit(next);
          if (state_.evicted(next)) open_.push_back(next);
        }
      }
    }
  }

 private:
  void begin(Index start) {
    ++turn_;
    op_seen_.resize(state_.graph.ops().size(), 0);
    seen_.resize(state_.graph.storages().size(), 0);
    seen_[start] = turn_;
    open_.assign(1, start);
  }

  const State& state_;
  std::uint64_t turn_ = 0;
  std::vector<std::uint64_t> op_seen_, seen_;  // the turn in which each was last reached
  std::vector<Index> open_;
};

}  // namespace l2l::compiler::remat::dtr
