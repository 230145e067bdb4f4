#include "compiler/remat/dtr/heuristic.h"

#include "compiler/remat/dtr/classes.h"
#include "compiler/remat/dtr/closures.h"
#include "compiler/remat/dtr/ratio.h"

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

}  // namespace

const std::vector<std::string>& score_names() {
  static const std::vector<std::string> names = {"dtr", "dtr_eq", "local", "lru", "size", "msps"};
  return names;
}

std::unique_ptr<Heuristic> make_heuristic(Score score, const State& state) {
  switch (score) {
    case Score::dtr:
      return std::make_unique<EvictedClosure>(state, EvictedClosure::Kind::dtr);
    case Score::dtr_eq:
      return std::make_unique<EvictedClasses>(state);
    case Score::local:
      return std::make_unique<Formula>(state, local);
    case Score::lru:
      return std::make_unique<Formula>(state, lru);
    case Score::size:
      return std::make_unique<Formula>(state, size);
    case Score::msps:
      return std::make_unique<EvictedClosure>(state, EvictedClosure::Kind::msps);
  }
  return nullptr;
}

}  // namespace l2l::compiler::remat::dtr
