#include "runtime/tuning/prediction.h"

#include <array>
#include <functional>

#include "core/workers.h"
#include "l2l/errors.h"
#include "runtime/tuning/step_ratios.h"

namespace l2l::runtime {
namespace {

VisitCost cost_of(const VisitWork& work, StepCosts& costs) {
  VisitCost cost;
  for (const VisitWork::Launches& launches : work.launches) {
    cost.compute = cost.compute + launches.count * costs.launch(*launches.program, work.layer);
  }
  cost.compute = cost.compute + costs.zero(work.zeroed);
  for (const auto& to_device : {work.weights, work.fetched, work.reloaded}) {
    cost.h2d = cost.h2d + to_device.count * costs.copy(Direction::to_device, to_device.bytes);
  }
  for (const auto& to_host : {work.stashed, work.saved, work.gradients}) {
    cost.d2h = cost.d2h + to_host.count * costs.copy(Direction::to_host, to_host.bytes);
  }
  return cost;
}

StepModel model_of(const RunPlan& plan, StepCosts& costs) {
  StepModel model;
  model.cores = available_cores();
  model.held = plan.store.held();
  const bool relay = plan.execution.execution == Execution::relay;
  model.slots = relay ? plan.execution.prefetch + 1 : plan.model.layers();
  const std::vector<VisitWork> work = step_work(plan);
  for (const VisitWork& visit : work) model.visits.push_back(cost_of(visit, costs));
  const Cost update = costs.parameter_update();
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (const GroupIndex group : work[i].updated) {
      const auto elements = plan.model.layout.groups[static_cast<std::size_t>(group)].gradient_elements();
      model.visits[i].update = model.visits[i].update + static_cast<double>(elements) * update;
    }
  }
  return model;
}

// Seconds of a step, if its pieces cost each other nothing on the cores and in the caches that they share.
double pieces(const RunPlan& plan, Calibration& calibration) {
  StepCosts costs(plan, calibration, /*may_measure=*/true);
  return model_of(plan, costs).step_seconds();
}

// The factor between a step and its pieces, of a shallower model. Its step is that of plain blocks by a ratio: measured
// by itself, it would tell the speed of the machine at the time.
double measure_sharing(const RunPlan& plan, Calibration& calibration) {
  StepRatios ratios(plan, shallower(plan), calibration);
  const RunPlan run = ratios.run(plan.decisions);
  try {
    return ratios.seconds(run) / pieces(run, calibration);
  } catch (const OutOfMemory&) {  // beside the plain one
    return measure_step(run) / pieces(run, calibration);
  }
}

// Exposed is what a step would gain if the resource took no time.
std::vector<PredictionLine> lines_of(const RunPlan& plan, const StepModel& model) {
  Bytes h2d = 0, d2h = 0;
  for (const VisitWork& visit : step_work(plan)) {
    h2d += visit.h2d();
    d2h += visit.d2h();
  }
  const std::array<Bytes, 4> bytes = {0, h2d, d2h, eps::ParameterStore::bytes_moved(plan.model.layout, plan.store)};
  const VisitCost sum = model.sum();
  std::vector<PredictionLine> lines;
  for (const Resource& resource : kResources) {
    StepModel without = model;
    for (VisitCost& visit : without.visits) visit.*resource.cost = Cost{};
    lines.push_back({resource.name, bytes[lines.size()], 1e3 * (sum.*resource.cost).seconds,
                     1e3 * (model.step_seconds() - without.step_seconds())});
  }
  return lines;
}

// `sharing`: measures that of the plan.
StepPrediction predict(const RunPlan& plan, Calibration& calibration, bool may_measure,
                       const std::function<double()>& sharing) {
  StepCosts costs(plan, calibration, may_measure);
  StepModel model = model_of(plan, costs);
  if (model.shares()) model.sharing = costs.sharing(plan, sharing);
  StepPrediction prediction;
  if (const std::optional<double> bandwidth = costs.memory_bandwidth()) {
    prediction.memory_gb_per_second = 1e-9 * *bandwidth;
  }
  calibration.save();
  prediction.work = costs.name_of_step(plan);
  prediction.missing = costs.missing();
  prediction.measured = costs.measured();
  prediction.cached = costs.cached();
  prediction.file = calibration.file().string();
  if (!prediction.missing.empty()) return prediction;
  const double seconds = model.step_seconds();
  prediction.step_ms = 1e3 * seconds;
  prediction.tokens_per_second = static_cast<double>(plan.model.rows * plan.execution.microbatches) / seconds;
  prediction.bound = model.bound();
  prediction.lines = lines_of(plan, model);
  return prediction;
}

}  // namespace

StepPrediction predict_step(const RunPlan& plan, Calibration& calibration, bool may_measure) {
  return predict(plan, calibration, may_measure, [&] { return measure_sharing(plan, calibration); });
}

StepPrediction check_prediction(const RunPlan& plan) {
  Calibration nowhere({}, "");
  double measured = 0;
  StepPrediction prediction = predict(plan, nowhere, /*may_measure=*/true, [&] {
    const RunPlan shallow = shallower_plan(plan, shallower(plan), plan.decisions);
    const StepPair pair = measure_pair(plan, shallow);
    measured = pair.seconds;
    return pair.seconds / pair.ratio.value / pieces(shallow, nowhere);
  });
  prediction.measured_ms = 1e3 * (measured > 0 ? measured : measure_step(plan));
  return prediction;
}

}  // namespace l2l::runtime
