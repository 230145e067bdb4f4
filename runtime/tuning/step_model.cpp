#include <algorithm>

#include "runtime/tuning/prediction.h"

namespace l2l::runtime {
namespace {

// Steps of a model, one after the other; times are seconds since the first one began.
class Pipeline {
 public:
  explicit Pipeline(const StepModel& model) : model_(model), updated_(model.visits.size()) {}

  // Returns when the pass is done and the next one may begin.
  double step() {
    computed_.assign(count(), begin_);
    h2d_ = compute_ = d2h_ = begin_;
    std::vector<double> left(count());  // gradients, and what else goes to the host
    for (std::size_t i = 0; i < count(); ++i) left[i] = run(i);
    update(left);
    return begin_ = std::max(compute_, d2h_);
  }

 private:
  std::size_t count() const { return model_.visits.size(); }
  // The backward visit of the layer of a forward visit, and the other way round.
  std::size_t mirror(std::size_t visit) const { return count() - 1 - visit; }

  double run(std::size_t i) {
    const VisitCost& visit = model_.visits[i];
    const auto slots = static_cast<std::size_t>(model_.slots);
    const double slot = i < slots ? begin_ : computed_[i - slots];
    const double version = i <= mirror(i) ? updated_[i] : 0;
    h2d_ = std::max({h2d_, slot, version}) + visit.h2d.seconds;
    compute_ = std::max(compute_, h2d_) + visit.compute.seconds;
    computed_[i] = compute_;
    return d2h_ = std::max(d2h_, compute_) + visit.d2h.seconds;
  }

  // Eager: as gradients come. Held: from the end of the pass on, in the order in which the next pass needs them.
  void update(const std::vector<double>& left) {
    for (std::size_t n = 0; n < count(); ++n) {
      const std::size_t visit = model_.held ? mirror(n) : n;
      const double seconds = model_.visits[visit].update.seconds;
      if (seconds == 0) continue;
      server_ = std::max(server_, model_.held ? left.back() : left[visit]) + seconds;
      updated_[std::min(visit, mirror(visit))] = server_;
    }
  }

  const StepModel& model_;
  std::vector<double> computed_;  // by visit of this step
  std::vector<double> updated_;   // by forward visit: when the version that the next step waits for is there
  double begin_ = 0, h2d_ = 0, compute_ = 0, d2h_ = 0, server_ = 0;
};

}  // namespace

VisitCost StepModel::sum() const {
  VisitCost total;
  for (const VisitCost& visit : visits) {
    for (const Resource& resource : kResources) total.*resource.cost = total.*resource.cost + visit.*resource.cost;
  }
  return total;
}

double StepModel::pipelined() const {
  constexpr int kWarmUp = 4, kSteps = 8;
  Pipeline pipeline(*this);
  double begin = 0, end = 0;
  for (int step = 0; step < kWarmUp; ++step) begin = pipeline.step();
  for (int step = 0; step < kSteps; ++step) end = pipeline.step();
  return (end - begin) / kSteps;
}

bool StepModel::shares() const { return computes_here(sum().compute); }

double StepModel::shared() const {
  const VisitCost total = sum();
  const double work = (total.compute + total.h2d + total.d2h + total.update).processor / cores;
  return std::max(total.compute.seconds, work);
}

double StepModel::step_seconds() const { return shares() ? sharing * std::max(pipelined(), shared()) : pipelined(); }

std::string StepModel::bound() const {
  const VisitCost total = sum();
  const auto less = [&](const Resource& a, const Resource& b) {
    return (total.*a.cost).seconds < (total.*b.cost).seconds;
  };
  return std::max_element(kResources.begin(), kResources.end(), less)->name;
}

}  // namespace l2l::runtime
