#include "compiler/remat/dtr/classes.h"

#include <algorithm>

#include "compiler/remat/dtr/ratio.h"
#include "core/fault_point.h"

namespace l2l::compiler::remat::dtr {

Index EvictedClasses::root(Index node) {
  while (nodes_[node].parent != node) {
    nodes_[node].parent = nodes_[nodes_[node].parent].parent;  // halves the path
    node = nodes_[node].parent;
  }
  return node;
}

// May visit a storage several times.
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

bool EvictedClasses::is_known(const Neighbourhood& neighbourhood) const {
  return neighbourhood.known &&
         std::all_of(neighbourhood.classes.begin(), neighbourhood.classes.end(),
                     [this](const Seen& seen) { return nodes_[seen.root].version == seen.version; });
}

Time EvictedClasses::class_costs(Index storage) {
  Neighbourhood& neighbourhood = neighbourhoods_[storage];
  if (is_known(neighbourhood)) return neighbourhood.sum;
  ++epoch_;
  neighbourhood.known = true;
  neighbourhood.sum = 0;
  neighbourhood.classes.clear();
  neighbours(storage, [&](Index neighbour) {
    if (!state_.evicted(neighbour)) return;
    const Index found = root(neighbourhoods_[neighbour].node);
    Node& node = nodes_[found];
    if (node.counted == epoch_) return;
    node.counted = epoch_;
    neighbourhood.classes.push_back({found, node.version});
    neighbourhood.sum += node.cost;
  });
  return neighbourhood.sum;
}

double EvictedClasses::score(Index storage, double bound) {
  const double denominator = size_times_staleness(state_, storage);
  const Time cost = state_.graph.storages()[storage].cost;
  const double alone = ratio(cost, denominator);
  if (denominator <= 0 || (alone > bound && !negative_)) return alone;
  return ratio(cost + class_costs(storage), denominator);
}

void EvictedClasses::forget_neighbours(Index storage) {
  neighbourhoods_[storage].known = false;
  neighbours(storage, [this](Index neighbour) { neighbourhoods_[neighbour].known = false; });
}

// An alias makes existing storages neighbours.
void EvictedClasses::on_added(Index op) {
  neighbourhoods_.resize(state_.graph.storages().size());
  const Graph::Node& node = state_.graph.ops()[op];
  for (const std::vector<Index>* const side : {&node.reads, &node.writes}) {
    for (const Index storage : *side) neighbourhoods_[storage].known = false;
  }
}

void EvictedClasses::on_evicted(Index storage) {
  const auto node = static_cast<Index>(nodes_.size());
  nodes_.push_back({node, 0, state_.graph.storages()[storage].cost, 0});
  neighbourhoods_[storage].node = node;
  neighbours(storage, [&](Index neighbour) {
    if (!state_.evicted(neighbour)) return;
    const Index from = root(neighbourhoods_[neighbour].node), into = root(node);
    if (from == into) return;
    ++nodes_[from].version;
    nodes_[from].parent = into;
    nodes_[into].cost += nodes_[from].cost;
  });
  forget_neighbours(storage);
}

void EvictedClasses::on_returned(Index storage) {
  const Index from = root(neighbourhoods_[storage].node);
  if (!fault_point("dtr.class_keeps_cost")) nodes_[from].cost -= state_.graph.storages()[storage].cost;
  negative_ = negative_ || nodes_[from].cost < 0;
  neighbourhoods_[storage].node = kNone;
  ++nodes_[from].version;
  forget_neighbours(storage);
}

}  // namespace l2l::compiler::remat::dtr
