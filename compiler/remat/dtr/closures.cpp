#include "compiler/remat/dtr/closures.h"

#include "compiler/remat/dtr/ratio.h"

namespace l2l::compiler::remat::dtr {
namespace {

// More evicted neighbours only add to a score: where its own cost alone is above the bound, they need not be known.
double bounded(Nanoseconds own, double denominator, double bound, Closures& closures, Index storage) {
  const double alone = ratio(own, denominator);
  if (denominator <= 0 || alone > bound) return alone;
  return ratio(own + closures.cost(storage), denominator);
}

}  // namespace

Nanoseconds Closures::cost(Index storage) {
  if (known_[storage]) return cost_[storage];
  ++turn_;
  Nanoseconds sum = 0;
  const auto count = [&](Index reached) {
    if (!state_.evicted(reached) || counted_[reached] == turn_) return;
    counted_[reached] = turn_;
    sum += state_.graph.storages()[reached].cost;
  };
  walk_.from(storage, Direction::ancestors, count);
  if (descendants_) walk_.from(storage, Direction::descendants, count);
  known_[storage] = 1;
  return cost_[storage] = sum;
}

void Closures::forget_around(Index storage) {
  const auto forget_it = [this](Index reached) { forget(reached); };
  forget(storage);
  walk_.from(storage, Direction::descendants, forget_it);
  if (descendants_) walk_.from(storage, Direction::ancestors, forget_it);
}

// Nothing is reached through a material storage.
void Closures::joined(Index storage) { state_.evicted(storage) ? forget_around(storage) : forget(storage); }

// An alias adds to the cost of its storage, and paths between storages that are there already.
void Closures::on_added(Index op) {
  const std::size_t storages = state_.graph.storages().size();
  cost_.resize(storages);
  known_.resize(storages, 0);
  counted_.resize(storages, 0);
  const Graph::Node& node = state_.graph.ops()[op];
  for (const Index written : node.writes) {
    if (state_.storages[written].life == Life::unborn) continue;
    joined(written);
    for (const Index read : node.reads) joined(read);
  }
}

void Closures::on_changed(Index storage) { forget_around(storage); }

double EvictedNeighbourhood::score(Index storage, double bound) {
  return bounded(state_.graph.storages()[storage].cost, size_times_staleness(state_, storage), bound, closures_,
                 storage);
}

double EvictedAncestors::score(Index storage, double bound) {
  const Graph::Storage& node = state_.graph.storages()[storage];
  return bounded(node.cost, static_cast<double>(node.size), bound, closures_, storage);
}

}  // namespace l2l::compiler::remat::dtr
