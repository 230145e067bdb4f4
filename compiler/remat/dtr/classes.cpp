// The heuristic dtr_eq: adjacent evicted storages form classes with a running cost, in a union-find. A storage that
// returns subtracts its cost from its class, but the class is not split.
#include <algorithm>

#include "compiler/remat/dtr/heuristic.h"
#include "core/fault_point.h"

namespace l2l::compiler::remat::dtr {
namespace {

// Sums are cached until one of their classes changes.
class EvictedClasses final : public Heuristic {
 public:
  explicit EvictedClasses(const State& state) : state_(state) {}

  double score(Index storage, double bound) override {
    const double denominator = size_times_staleness(state_, storage);
    const Time cost = state_.graph.storages()[storage].cost;
    const double alone = ratio(cost, denominator);
    if (denominator <= 0 || (alone > bound && !negative_)) return alone;
    return ratio(cost + class_costs(storage), denominator);
  }

  // An alias makes existing storages neighbours.
  void on_added(Index op) override {
    neighbourhoods_.resize(state_.graph.storages().size());
    const Graph::Node& node = state_.graph.ops()[op];
    for (const std::vector<Index>* const side : {&node.reads, &node.writes}) {
      for (const Index storage : *side) neighbourhoods_[storage].known = false;
    }
  }

  void on_evicted(Index storage) override {
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

  void on_returned(Index storage) override {
    Node& from = nodes_[root(neighbourhoods_[storage].node)];
    if (!fault_point("dtr.class_keeps_cost")) from.cost -= state_.graph.storages()[storage].cost;
    negative_ = negative_ || from.cost < 0;
    ++from.version;
    forget_neighbours(storage);
  }

 private:
  struct Node {
    Index parent;           // itself, if it is the root of its class
    Index version;          // of a root: grows when the cost changes, and when it ceases to be a root
    Time cost;              // of a root: of the class
    std::uint64_t counted;  // the epoch in which it was last counted
  };
  struct Seen {
    Index root, version;
  };
  struct Neighbourhood {  // per storage
    Index node = kNone;   // its node, if it is evicted
    bool known = false;   // `sum` is the cost of `classes`, those of its evicted neighbours, if versions are unchanged
    Time sum = 0;
    std::vector<Seen> classes;
  };

  Index root(Index node) {
    while (nodes_[node].parent != node) {
      nodes_[node].parent = nodes_[nodes_[node].parent].parent;  // halves the path
      node = nodes_[node].parent;
    }
    return node;
  }

  // May visit a storage several times.
  template <typename Visit>
  void neighbours(Index storage, Visit visit) const {
    const auto look = [&](const std::vector<Index>& reached) {
      for (const Index neighbour : reached) {
        if (neighbour != storage) visit(neighbour);
      }
    };
    const Graph::Storage& node = state_.graph.storages()[storage];
    for (const Index op : node.makers) look(state_.graph.ops()[op].reads);
    for (const Index op : node.users) look(state_.graph.ops()[op].writes);
  }

  void forget_neighbours(Index storage) {
    neighbourhoods_[storage].known = false;
    neighbours(storage, [this](Index neighbour) { neighbourhoods_[neighbour].known = false; });
  }

  Time class_costs(Index storage) {
    Neighbourhood& neighbourhood = neighbourhoods_[storage];
    const auto unchanged = [this](const Seen& seen) { return nodes_[seen.root].version == seen.version; };
    const std::vector<Seen>& classes = neighbourhood.classes;
    if (neighbourhood.known && std::all_of(classes.begin(), classes.end(), unchanged)) return neighbourhood.sum;
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

  const State& state_;
  std::vector<Node> nodes_;
  std::vector<Neighbourhood> neighbourhoods_;
  std::uint64_t epoch_ = 0;
  // An alias declared while its storage is evicted adds to the cost that the storage subtracts when it returns, so that
  // a class can fall below zero. Then a score may be less than that of the storage alone.
  bool negative_ = false;
};

}  // namespace

std::unique_ptr<Heuristic> make_evicted_classes(const State& state) { return std::make_unique<EvictedClasses>(state); }

}  // namespace l2l::compiler::remat::dtr
