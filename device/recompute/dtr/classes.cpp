#include "device/recompute/dtr/classes.h"

#include "core/fault_point.h"
#include "device/recompute/dtr/ratio.h"

namespace l2l::device::recompute::dtr {

Index EvictedClasses::root(Index node) {
  while (nodes_[node].parent != node) {
    nodes_[node].parent = nodes_[nodes_[node].parent].parent;  // halves the path
    node = nodes_[node].parent;
  }
  return node;
}

// May visit one several times.
template <typename Visit>
void EvictedClasses::evicted_neighbours(Index storage, Visit visit) const {
  const auto look = [&](const std::vector<Index>& reached) {
    for (const Index neighbour : reached) {
      if (neighbour != storage && state_.evicted(neighbour)) visit(neighbour);
    }
  };
  const Graph::Storage& node = state_.graph.storages()[storage];
  for (const Index op : node.makers) look(state_.graph.ops()[op].reads);
  for (const Index op : node.users) look(state_.graph.ops()[op].writes);
}

double EvictedClasses::score(Index storage, double bound) {
  const double denominator = size_times_staleness(state_, storage);
  Nanoseconds sum = state_.graph.storages()[storage].cost;
  const double alone = ratio(sum, denominator);
  if (denominator <= 0 || (alone > bound && !negative_)) return alone;
  ++turn_;
  evicted_neighbours(storage, [&](Index neighbour) {
    Node& found = nodes_[root(node_of_[neighbour])];
    if (found.counted != turn_) sum += found.cost;
    found.counted = turn_;
  });
  return ratio(sum, denominator);
}

void EvictedClasses::on_added(Index /*op*/) { node_of_.resize(state_.graph.storages().size(), kNone); }

void EvictedClasses::on_evicted(Index storage) {
  const auto node = static_cast<Index>(nodes_.size());
  nodes_.push_back({node, state_.graph.storages()[storage].cost, 0});
  node_of_[storage] = node;
  evicted_neighbours(storage, [&](Index neighbour) {
    const Index from = root(node_of_[neighbour]), into = root(node);
    if (from == into) return;
    nodes_[from].parent = into;
    nodes_[into].cost += nodes_[from].cost;
  });
}

void EvictedClasses::on_returned(Index storage) {
  Nanoseconds& cost = nodes_[root(node_of_[storage])].cost;
  if (!fault_point("dtr.class_keeps_cost")) cost -= state_.graph.storages()[storage].cost;
  negative_ = negative_ || cost < 0;
  node_of_[storage] = kNone;
}

}  // namespace l2l::device::recompute::dtr
