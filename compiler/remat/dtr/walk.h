// Traverses the evicted ancestors or descendants of a storage. Thread-bound.
#pragma once

#include <vector>

#include "compiler/remat/dtr/state.h"

namespace l2l::compiler::remat::dtr {

enum class Direction : std::uint8_t { ancestors, descendants };

class Walk {
 public:
  explicit Walk(const State& state) : state_(state) {}

  // Calls visit(storage) once for each storage that is reached, except `start`. The walk continues only through evicted
  // storages.
  template <typename Visit>
  void from(Index start, Direction direction, Visit visit) {
    begin(start);
    while (!open_.empty()) {
      const Index storage = open_.back();
      open_.pop_back();
      const Graph::Storage& node = state_.graph.storages()[storage];
      for (const Index op : direction == Direction::ancestors ? node.makers : node.users) {
        if (op_seen_[op] == epoch_) continue;
        op_seen_[op] = epoch_;
        const Graph::Node& taken = state_.graph.ops()[op];
        for (const Index next : direction == Direction::ancestors ? taken.reads : taken.writes) {
          if (seen_[next] == epoch_) continue;
          seen_[next] = epoch_;
          visit(next);
          if (state_.evicted(next)) open_.push_back(next);
        }
      }
    }
  }

 private:
  void begin(Index start) {
    ++epoch_;
    op_seen_.resize(state_.graph.ops().size(), 0);
    seen_.resize(state_.graph.storages().size(), 0);
    seen_[start] = epoch_;
    open_.assign(1, start);
  }

  const State& state_;
  std::uint64_t epoch_ = 0;
  std::vector<std::uint64_t> op_seen_, seen_;  // the epoch in which each was last reached
  std::vector<Index> open_;
};

}  // namespace l2l::compiler::remat::dtr
