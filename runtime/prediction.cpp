#include "runtime/prediction.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/workers.h"

namespace l2l::runtime {
namespace {

// What a figure that is missing leaves out shows in StepCosts::missing().
Cost known(const std::optional<Cost>& cost) { return cost.value_or(Cost{}); }

Cost copies(StepCosts& costs, Direction direction, const VisitWork::Copies& copies) {
  if (copies.count == 0) return {};
  return copies.count * known(costs.copy(direction, copies.bytes));
}

VisitCost cost_of(const VisitWork& work, const RunPlan& plan, StepCosts& costs) {
  VisitCost cost;
  for (const VisitWork::Launches& launches : work.launches) {
    cost.compute = cost.compute + launches.count * known(costs.launch(*launches.program, work.layer));
  }
  cost.compute = cost.compute + known(costs.zero(work.zeroed));
  cost.h2d = copies(costs, Direction::to_device, work.weights) + copies(costs, Direction::to_device, work.fetched);
  cost.d2h = copies(costs, Direction::to_host, work.stashed) + copies(costs, Direction::to_host, work.gradients);
  const Cost update = known(costs.parameter_update());
  for (const GroupIndex group : work.updated) {
    const double elements = static_cast<double>(plan.model.layout.groups[static_cast<std::size_t>(group)].elements);
    cost.update = cost.update + elements * update;
  }
  return cost;
}

}  // namespace

VisitCost StepModel::sum() const {
  VisitCost total;
  for (const VisitCost& visit : visits) {
    total.compute = total.compute + visit.compute;
    total.h2d = total.h2d + visit.h2d;
    total.d2h = total.d2h + visit.d2h;
    total.update = total.update + visit.update;
  }
  return total;
}

double StepModel::overlapped() const {
  double seconds = visits.front().h2d.seconds + visits.back().d2h.seconds + visits.back().update.seconds;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const VisitCost& visit = visits[i];
    const double h2d = i == 0 ? 0 : visit.h2d.seconds, d2h = i + 1 == visits.size() ? 0 : visit.d2h.seconds;
    seconds += std::max({visit.compute.seconds, h2d, d2h});
  }
  return seconds;
}

double StepModel::processor() const {
  const VisitCost total = sum();
  const Cost all = total.compute + total.h2d + total.d2h + total.update;
  return all.processor / cores;
}

double StepModel::step_seconds() const { return std::max(overlapped(), processor()); }

std::string StepModel::bound() const { return "device compute"; }

StepPrediction predict_step(const RunPlan& plan, Calibration& calibration, bool may_measure) {
  StepCosts costs(plan, calibration, may_measure);
  StepModel model;
  model.cores = available_cores();
  model.shares = plan.device->uses_host_memory();
  for (const VisitWork& work : step_work(plan)) model.visits.push_back(cost_of(work, plan, costs));
  StepPrediction prediction;
  prediction.missing = costs.missing();
  if (costs.missing().empty()) prediction.step_ms = 1e3 * model.step_seconds();
  if (const char* const debug = std::getenv("L2L_DEBUG"); debug) {
    const VisitCost s = model.sum();
    std::fprintf(stderr, "DEBUG compute %.2f/%.2f h2d %.2f/%.2f d2h %.2f/%.2f update %.2f/%.2f overlapped %.2f processor %.2f\n",
                 1e3 * s.compute.seconds, 1e3 * s.compute.processor, 1e3 * s.h2d.seconds, 1e3 * s.h2d.processor,
                 1e3 * s.d2h.seconds, 1e3 * s.d2h.processor, 1e3 * s.update.seconds, 1e3 * s.update.processor,
                 1e3 * model.overlapped(), 1e3 * model.processor());
  }
  calibration.save();
  return prediction;
}

}  // namespace l2l::runtime
