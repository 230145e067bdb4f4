#include "compiler/remat/dtr/heuristic.h"

#include "compiler/remat/dtr/classes.h"
#include "compiler/remat/dtr/closures.h"
#include "compiler/remat/dtr/ratio.h"

namespace l2l::compiler::remat::dtr {
namespace {

class Local final : public Heuristic {
 public:
  explicit Local(const State& state) : state_(state) {}
  double score(Index storage, double /*bound*/) override {
    return ratio(state_.graph.storages()[storage].cost, size_times_staleness(state_, storage));
  }

 private:
  const State& state_;
};

class Lru final : public Heuristic {
 public:
  explicit Lru(const State& state) : state_(state) {}
  double score(Index storage, double /*bound*/) override {
    return static_cast<double>(state_.storages[storage].last_access);
  }

 private:
  const State& state_;
};

class Size final : public Heuristic {
 public:
  explicit Size(const State& state) : state_(state) {}
  double score(Index storage, double /*bound*/) override {
    return ratio(1, static_cast<double>(state_.graph.storages()[storage].size));
  }

 private:
  const State& state_;
};

}  // namespace

const std::vector<std::string>& score_names() {
  static const std::vector<std::string> names = {"dtr", "dtr_eq", "local", "lru", "size", "msps"};
  return names;
}

std::unique_ptr<Heuristic> make_heuristic(Score score, const State& state) {
  switch (score) {
    case Score::dtr:
      return std::make_unique<EvictedNeighbourhood>(state);
    case Score::dtr_eq:
      return std::make_unique<EvictedClasses>(state);
    case Score::local:
      return std::make_unique<Local>(state);
    case Score::lru:
      return std::make_unique<Lru>(state);
    case Score::size:
      return std::make_unique<Size>(state);
    case Score::msps:
      return std::make_unique<EvictedAncestors>(state);
  }
  return nullptr;
}

}  // namespace l2l::compiler::remat::dtr
