#include "compiler/remat/dtr/closures.h"

#include "compiler/remat/dtr/ratio.h"

namespace l2l::compiler::remat::dtr {

// Evicted neighbours only add to a score: if the storage's own cost is above the bound already, they do not matter.
double EvictedClosure::score(Index storage, double bound) {
  const Graph::Storage& node = state_.graph.storages()[storage];
  const double denominator =
      kind_ == Kind::dtr ? size_times_staleness(state_, storage) : static_cast<double>(node.size);
  const double alone = ratio(node.cost, denominator);
  if (denominator <= 0 || alone > bound) return alone;
  return ratio(node.cost + closure_cost(storage), denominator);
}

Time EvictedClosure::closure_cost(Index storage) {
  if (known_[storage]) return cost_[storage];
  ++epoch_;
  Time sum = 0;
  const auto count = [&](Index reached) {
    if (!state_.evicted(reached) || counted_[reached] == epoch_) return;
    counted_[reached] = epoch_;
    sum += state_.graph.storages()[reached].cost;
  };
  walk_.from(storage, Direction::ancestors, count);
  if (kind_ == Kind::dtr) walk_.from(storage, Direction::descendants, count);
  known_[storage] = 1;
  return cost_[storage] = sum;
}

void EvictedClosure::forget_reachable(Index storage) {
  const auto forget_it = [this](Index reached) { forget(reached); };
  forget(storage);
  walk_.from(storage, Direction::descendants, forget_it);
  if (kind_ == Kind::dtr) walk_.from(storage, Direction::ancestors, forget_it);
}

// Nothing is reached through a material storage.
void EvictedClosure::on_joined(Index storage) { state_.evicted(storage) ? forget_reachable(storage) : forget(storage); }

// An alias adds to the cost of its storage, and adds paths between existing storages.
void EvictedClosure::on_added(Index op) {
  const std::size_t storages = state_.graph.storages().size();
  cost_.resize(storages);
  known_.resize(storages, 0);
  counted_.resize(storages, 0);
  const Graph::Node& node = state_.graph.ops()[op];
  for (const Index written : node.writes) {
    if (state_.storages[written].life == Life::unborn) continue;
    on_joined(written);
    for (const Index read : node.reads) on_joined(read);
  }
}

}  // namespace l2l::compiler::remat::dtr
