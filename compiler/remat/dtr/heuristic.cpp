#include "compiler/remat/dtr/heuristic.h"

namespace l2l::compiler::remat::dtr {
namespace {

double local(const State& state, Index storage) {
  return ratio(state.graph.storages()[storage].cost, size_times_staleness(state, storage));
}

double lru(const State& state, Index storage) { return static_cast<double>(state.storages[storage].last_access); }

double size(const State& state, Index storage) {
  return ratio(1, static_cast<double>(state.graph.storages()[storage].size));
}

// A score that follows from the current state alone.
class Formula final : public Heuristic {
 public:
  Formula(const State& state, double (*formula)(const State&, Index)) : state_(state), formula_(formula) {}
  double score(Index storage, double /*bound*/) override { return formula_(state_, storage); }

 private:
  const State& state_;
  double (*const formula_)(const State&, Index);
};

// dtr and msps: an eviction costs as much as all evicted storages it would be joined to.
class EvictedClosure final : public Heuristic {
 public:
  EvictedClosure(const State& state, Score score) : state_(state), dtr_(score == Score::dtr) {}

  // Evicted neighbours only add to a score: if the storage's own cost is above the bound already, they do not matter.
  double score(Index storage, double bound) override {
    const Graph::Storage& node = state_.graph.storages()[storage];
    const double denominator = dtr_ ? size_times_staleness(state_, storage) : static_cast<double>(node.size);
    const double alone = ratio(node.cost, denominator);
    if (denominator <= 0 || alone > bound) return alone;
    epoch_ += 2;
    Time cost = node.cost + reached_cost(storage, &Graph::Storage::makers, &Graph::Node::reads, epoch_);
    if (dtr_) cost += reached_cost(storage, &Graph::Storage::users, &Graph::Node::writes, epoch_ + 1);
    return ratio(cost, denominator);
  }

 private:
  // Of the evicted storages that are reached from `start` through evicted storages only, by ops of each and storages of
  // those. Without those that were reached before in this epoch.
  Time reached_cost(Index start, std::vector<Index> Graph::Storage::*ops, std::vector<Index> Graph::Node::*storages,
                    std::uint64_t epoch) {
    reached_.resize(state_.graph.storages().size(), 0);
    Time sum = 0;
    open_.assign(1, start);
    while (!open_.empty()) {
      const Graph::Storage& node = state_.graph.storages()[open_.back()];
      open_.pop_back();
      for (const Index op : node.*ops) {
        for (const Index next : state_.graph.ops()[op].*storages) {
          if (reached_[next] == epoch || !state_.evicted(next)) continue;
          if (reached_[next] < epoch_) sum += state_.graph.storages()[next].cost;
          reached_[next] = epoch;
          open_.push_back(next);
        }
      }
    }
    return sum;
  }

  const State& state_;
  const bool dtr_;
  std::vector<std::uint64_t> reached_;  // the last epoch in which each storage was reached
  std::uint64_t epoch_ = 0;             // of ancestors; that of descendants is one more
  std::vector<Index> open_;
};

}  // namespace

const std::vector<std::string>& score_names() {
  static const std::vector<std::string> names = {"dtr", "dtr_eq", "local", "lru", "size", "msps"};
  return names;
}

std::unique_ptr<Heuristic> make_heuristic(Score score, const State& state) {
  switch (score) {
    case Score::dtr:
    case Score::msps:
      return std::make_unique<EvictedClosure>(state, score);
    case Score::dtr_eq:
      return make_evicted_classes(state);
    case Score::local:
      return std::make_unique<Formula>(state, local);
    case Score::lru:
      return std::make_unique<Formula>(state, lru);
    case Score::size:
      return std::make_unique<Formula>(state, size);
  }
  return nullptr;
}

}  // namespace l2l::compiler::remat::dtr
