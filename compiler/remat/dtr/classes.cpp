#include "compiler/remat/dtr/classes.h"

#include <algorithm>

#include "core/fault_point.h"
#include "compiler/remat/dtr/ratio.h"

namespace l2l::compiler::remat::dtr {

Index EvictedClasses::root(Index node) {
  while (nodes_[node].parent != node) {
    nodes_[node].parent = nodes_[nodes_[node].parent].parent;  // halves the path
    node = nodes_[node].parent;
  }
  return node;
}

// May visit one several times.
template <typename Visit>
void EvictedClasses::neighbours(Index storage, Visit visit) const {
  const auto look = [&](const std::vector<Index>& reached) {
    for (const Index neighbour : reached) {
      if (neighbour != storage) visit(neighbour);
    }
  };
  const Graph::Storage& node = state_.graph.storages()[storage];
  for (const Index op : node.makers) look(state_.graph.ops()[op].reads);
  for (const Index op : node.users) look(state_.graph.ops()[op].writes);
}

bool EvictedClasses::is_known(const Around& around) const {
  return around.known && std::all_of(around.classes.begin(), around.classes.end(),
                                     [this](const Seen& seen) { return nodes_[seen.root].version == seen.version; });
}

Nanoseconds EvictedClasses::sum_around(Index storage) {
  Around& around = around_[storage];
  if (is_known(around)) return around.sum;
  ++turn_;
  around.known = true;
  around.sum = 0;
  around.classes.clear();
  neighbours(storage, [&](Index neighbour) {
    if (!state_.evicted(neighbour)) return;
    const Index found = root(around_[neighbour].node);
    Node& node = nodes_[found];
    if (node.counted == turn_) return;
    node.counted = turn_;
    around.classes.push_back({found, node.version});
    around.sum += node.cost;
  });
  return around.sum;
}

double EvictedClasses::score(Index storage, double bound) {
  const double denominator = size_times_staleness(state_, storage);
  const Nanoseconds cost = state_.graph.storages()[storage].cost;
  const double alone = ratio(cost, denominator);
  if (denominator <= 0 || (alone > bound && !negative_)) return alone;
  return ratio(cost + sum_around(storage), denominator);
}

void EvictedClasses::forget_neighbours(Index storage) {
  around_[storage].known = false;
  neighbours(storage, [this](Index neighbour) { around_[neighbour].known = false; });
}

// An alias makes neighbours of storages that are there already.
void EvictedClasses::on_added(Index op) {
  around_.resize(state_.graph.storages().size());
  const Graph::Node& node = state_.graph.ops()[op];
  for (const std::vector<Index>* const side : {&node.reads, &node.writes}) {
    for (const Index storage : *side) around_[storage].known = false;
  }
}

void EvictedClasses::on_evicted(Index storage) {
  const auto node = static_cast<Index>(nodes_.size());
  nodes_.push_back({node, 0, state_.graph.storages()[storage].cost, 0});
  around_[storage].node = node;
  neighbours(storage, [&](Index neighbour) {
    if (!state_.evicted(neighbour)) return;
    const Index from = root(around_[neighbour].node), into = root(node);
    if (from == into) return;
    ++nodes_[from].version;
    nodes_[from].parent = into;
    nodes_[into].cost += nodes_[from].cost;
  });
  forget_neighbours(storage);
}

void EvictedClasses::on_returned(Index storage) {
  const Index from = root(around_[storage].node);
  if (!fault_point("dtr.class_keeps_cost")) nodes_[from].cost -= state_.graph.storages()[storage].cost;
  negative_ = negative_ || nodes_[from].cost < 0;
  around_[storage].node = kNone;
  ++nodes_[from].version;
  forget_neighbours(storage);
}

}  // namespace l2l::compiler::remat::dtr
