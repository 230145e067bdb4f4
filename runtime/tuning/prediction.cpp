#include "runtime/tuning/prediction.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/topology.h"
#include "core/workers.h"
#include "eps/exchange_bytes.h"
#include "l2l/errors.h"
#include "runtime/tuning/step_ratios.h"

namespace l2l::runtime {
namespace {

VisitCost cost_of(const VisitWork& work, StepCosts& costs) {
  VisitCost cost;
  for (const VisitWork::Launches& launches : work.launches) {
    cost.compute = cost.compute + launches.count * costs.launch(*launches.program, work.layer);
  }
  cost.compute = cost.compute + work.zeroed.count * costs.zero(work.zeroed.bytes);
  for (const auto& to_device : {work.weights, work.fetched, work.reloaded}) {
    cost.h2d = cost.h2d + to_device.count * costs.copy(Direction::to_device, to_device.bytes);
  }
  cost.gather = work.gathered.count * costs.gather(work.gathered.bytes);
  cost.exchange = work.exchanged.count * costs.exchange(work.exchanged.bytes);
  if (work.summed != nullptr) cost.exchange = cost.exchange + costs.launch(*work.summed, work.layer);
  for (const auto& to_host : {work.stashed, work.saved, work.gradients}) {
    cost.d2h = cost.d2h + to_host.count * costs.copy(Direction::to_host, to_host.bytes);
  }
  return cost;
}

// Of each rank in a step; `wire` has what is gathered for visits as well.
std::vector<eps::ExchangeBytes> exchanged(const RunPlan& plan, const std::vector<VisitWork>& work) {
  const ModelLayout& layout = plan.model.layout;
  std::vector<eps::ExchangeBytes> sums(static_cast<std::size_t>(plan.store.rank.count));
  for (const VisitWork& visit : work) {
    if (visit.weights.count == 0) continue;
    const std::vector<collectives::Traffic> bytes = eps::visit_bytes(layout, visit.layer, plan.store);
    for (std::size_t rank = 0; rank < sums.size(); ++rank) sums[rank].wire = sums[rank].wire + bytes[rank];
  }
  const std::vector<std::vector<eps::ElementRange>> uses = eps::gradients_of_uses(layout);
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    const std::vector<eps::ExchangeBytes> bytes = eps::exchange_bytes(layout.groups[group], uses[group], plan.store);
    for (std::size_t rank = 0; rank < sums.size(); ++rank) sums[rank] = sums[rank] + bytes[rank];
  }
  return sums;
}

// The node that has most to exchange, for which the others wait: of small groups some have more than others.
std::size_t busiest_of(const std::vector<eps::ExchangeBytes>& ranks) {
  const auto either = [](const eps::ExchangeBytes& bytes) { return bytes.all().either(); };
  return static_cast<std::size_t>(std::ranges::max_element(ranks, {}, either) - ranks.begin());
}

// What updates of this node's shards move, over what they would if it were alone: it has fewer elements, and more
// gradients of each.
double share_of_updates(const RunPlan& plan) {
  const auto moved = [&](const eps::StoreOptions& store) {
    return static_cast<double>(eps::ParameterStore::bytes_moved(plan.model.layout, store));
  };
  return plan.store.rank.count == 1 ? 1 : moved(plan.store) / moved(of_one_rank(plan.store));
}

StepModel model_of(const RunPlan& plan, StepCosts& costs) {
  const ModelLayout& layout = plan.model.layout;
  StepModel model;
  model.cores = available_cores();
  model.held = plan.store.held();
  if (!plan.store.holds_gradients()) model.gradient_buffers = plan.store.staging_slots / plan.store.pushed_gradients();
  model.sums = plan.store.sums_devices();
  model.network = plan.options.network;
  const bool relay = plan.execution.execution == Execution::relay;
  model.slots = relay ? plan.execution.prefetch + 1 : plan.model.layers();
  const std::vector<VisitWork> work = step_work(plan);
  for (const VisitWork& visit : work) model.visits.push_back(cost_of(visit, costs));
  const Cost update = share_of_updates(plan) * costs.parameter_update();
  const std::size_t busiest = busiest_of(exchanged(plan, work));
  const std::vector<std::vector<eps::ElementRange>> uses = eps::gradients_of_uses(layout);
  model.wire_slots = plan.store.wire_slots;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].weights.count > 0) {
      model.visits[i].wires = eps::visit_bytes(layout, work[i].layer, plan.store)[busiest];
    }
    for (const GroupIndex updated : work[i].updated) {
      const auto index = static_cast<std::size_t>(updated);
      const GroupSpec& group = layout.groups[index];
      model.visits[i].update = model.visits[i].update + static_cast<double>(group.gradient_elements()) * update;
      const eps::ExchangeBytes bytes = eps::exchange_bytes(group, uses[index], plan.store)[busiest];
      model.visits[i].gradients = model.visits[i].gradients + bytes.gradients;
      model.visits[i].weights = model.visits[i].weights + bytes.squares + bytes.wire;
    }
  }
  return model;
}

// Seconds of a step of one node alone, with the same share of the minibatch.
double one_node_seconds(const RunPlan& plan, StepModel model) {
  const double whole = 1 / share_of_updates(plan);
  for (VisitCost& visit : model.visits) {
    visit.update = whole * visit.update;
    visit.gradients = visit.weights = visit.wires = {};
  }
  return model.step_seconds();
}

NodesPrediction predict_nodes(const RunPlan& plan) {
  NodesPrediction nodes;
  nodes.nodes = plan.store.rank.count;
  nodes.limit = plan.store.too_many();
  const auto own = static_cast<std::size_t>(plan.store.rank.index);
  const auto [gradients, squares, wire] = exchanged(plan, step_work(plan))[own];
  nodes.network = {gradients.sent, gradients.received, squares.sent, squares.received, wire.sent, wire.received};
  return nodes;
}

void add_times(const RunPlan& plan, const StepModel& model, NodesPrediction& nodes) {
  const double one = one_node_seconds(plan, model);
  nodes.one_node_ms = 1e3 * one;
  if (model.network > 0) {
    nodes.gb_per_second = 1e-9 * model.network;
    nodes.efficiency = one / model.step_seconds();
  }
  if (const std::optional<double> bandwidth = hiding_bandwidth(model, NodesPrediction::kHidden)) {
    nodes.hidden_from_gb_per_second = 1e-9 * *bandwidth;
  }
}

// Seconds of a step, if its pieces cost each other nothing on the cores and in the caches that they share.
double pieces(const RunPlan& plan, Calibration& calibration, MeasuringSession& session) {
  StepCosts costs(plan, calibration, &session);
  return model_of(plan, costs).step_seconds();
}

// The factor between a step and its pieces, of a shallower model. Its step is that of plain blocks by a ratio: measured
// by itself, it would tell the speed of the machine at the time.
double measure_sharing(const RunPlan& plan, Calibration& calibration, MeasuringSession& session) {
  StepRatios ratios(plan, shallower(plan), calibration, session);
  const RunPlan run = ratios.run(plan.decisions);
  try {
    return ratios.seconds(run) / pieces(run, calibration, session);
  } catch (const OutOfMemory&) {  // beside the plain one
    return measure_step(run) / pieces(run, calibration, session);
  }
}

// The same by a few steps of a smaller model.
constexpr Bytes kBriefState = 64 << 20;
double measure_sharing_briefly(const RunPlan& plan, Calibration& calibration, const MeasuringSession& session) {
  const RunPlan run = shallower_plan(plan, shallower(plan, kBriefState), plan.decisions);
  MeasuringSession look = session.without_time();
  try {
    return measure_step(run, Effort::brief) / pieces(run, calibration, look);
  } catch (const OutOfMemory&) {
    return 1;
  }
}

// Seconds that this takes: of making the smaller model, and of its steps.
double seconds_of_brief_steps(const RunPlan& plan, double step_seconds) {
  constexpr double kSteps = 6, kBytesPerSecond = 1e9, kLeastShare = 0.25;  // embedding and head do not shrink
  const auto layers = static_cast<double>(shallower(plan, kBriefState).model.layers);
  const double share = std::max(kLeastShare, layers / static_cast<double>(plan.model.blocks()));
  const auto state = static_cast<double>(eps::ParameterStore::bytes_needed(plan.model.layout, plan.store).state);
  return share * (kSteps * step_seconds + state / kBytesPerSecond);
}

// Exposed is what a step would gain if the resource took no time.
std::vector<PredictionLine> lines_of(const RunPlan& plan, const StepModel& model) {
  Bytes h2d = 0, d2h = 0, gathered = 0, among_devices = 0;
  for (const VisitWork& visit : step_work(plan)) {
    gathered += visit.gathered.total();
    among_devices += visit.exchanged.total();
    h2d += visit.h2d();
    d2h += visit.d2h();
  }
  const std::array<Bytes, 4> bytes = {0, h2d, d2h, eps::ParameterStore::bytes_moved(plan.model.layout, plan.store)};
  const VisitCost sum = model.sum();
  const double step = model.step_seconds();
  const auto exposed = [&](const StepModel& without) { return 1e3 * (step - without.step_seconds(model.shares())); };
  std::vector<PredictionLine> lines;
  const auto add = [&](const Resource& resource, Bytes carried) {
    StepModel without = model;
    for (VisitCost& visit : without.visits) visit.*resource.cost = Cost{};
    lines.push_back({resource.name, carried, 1e3 * (sum.*resource.cost).seconds, exposed(without)});
  };
  for (const Resource& resource : kResources) add(resource, bytes[lines.size()]);
  if (gathered > 0) add(kPeerLinks, gathered);
  if (among_devices > 0) add(kExchanges, among_devices);
  if (model.network > 0 && plan.store.rank.count > 1) {
    StepModel without = model;
    without.network = 0;
    lines.push_back({kNetwork, sum.exchanged().either(), 1e3 * model.network_seconds(), exposed(without)});
  }
  return lines;
}

// Whether caches may hold more than a quarter of the state: how fast that is updated says little of memory.
bool is_in_caches(const RunPlan& plan) {
  constexpr Bytes kUsual = 32 << 20;  // where the machine does not say
  return eps::ParameterStore::bytes_needed(plan.model.layout, plan.store).state <
         4 * std::max(kUsual, read_topology().caches());
}

// `sharing`: measures that of the plan, when the session is thorough.
StepPrediction predict(const RunPlan& plan, Calibration& calibration, MeasuringSession* session,
                       const std::function<double()>& sharing) {
  const bool thorough = session != nullptr && session->thorough();
  StepCosts costs(plan, calibration, session);
  costs.announce([&](StepCosts& announcing) {
    model_of(plan, announcing);
    if (plan.device->uses_host_memory()) announcing.sharing(plan, thorough ? 2 * kPairSeconds : 1, {});
  });
  StepModel model = model_of(plan, costs);
  if (model.shares()) {
    const double seconds = thorough ? 2 * kPairSeconds : seconds_of_brief_steps(plan, model.step_seconds());
    model.sharing = costs.sharing(
        plan, seconds, [&] { return thorough ? sharing() : measure_sharing_briefly(plan, calibration, *session); });
  }
  StepPrediction prediction;
  prediction.state_in_caches = is_in_caches(plan);
  if (const auto bandwidth = prediction.state_in_caches ? std::nullopt : costs.memory_bandwidth()) {
    prediction.memory_gb_per_second = 1e-9 * *bandwidth;
  }
  calibration.save();
  prediction.work = costs.name_of_step(plan);
  prediction.missing = costs.missing();
  prediction.measured = costs.measured();
  prediction.cached = costs.cached();
  prediction.estimated = costs.estimated();
  if (calibration.is_saved()) prediction.file = calibration.file().string();
  if (plan.store.rank.count > 1) prediction.nodes = predict_nodes(plan);
  if (!prediction.missing.empty()) return prediction;
  const double seconds = model.step_seconds();
  prediction.step_ms = 1e3 * seconds;
  const std::int64_t microbatches = plan.execution.microbatches * plan.options.all_groups();
  prediction.tokens_per_second = static_cast<double>(plan.model.rows * microbatches) / seconds;
  prediction.bound = model.bound();
  prediction.lines = lines_of(plan, model);
  if (prediction.nodes) add_times(plan, model, *prediction.nodes);
  if (prediction.memory_gb_per_second &&
      prediction.estimated == 0) {  // updates that are faster show that memory carries more
    const PredictionLine& updates = prediction.lines[kResources.size() - 1];
    prediction.memory_gb_per_second =
        std::max(*prediction.memory_gb_per_second, 1e-6 * static_cast<double>(updates.bytes) / updates.ms);
  }
  return prediction;
}

}  // namespace

StepPrediction predict_step(const RunPlan& plan, Calibration& calibration, MeasuringSession* session) {
  std::optional<WatchedMeasuring> watched;
  if (session != nullptr) watched.emplace(*session);
  return predict(plan, calibration, session, [&] { return measure_sharing(plan, calibration, *session); });
}

StepPrediction check_prediction(const RunPlan& plan, Calibration& calibration, MeasuringSession& session) {
  if (plan.store.rank.count > 1) return predict_step(plan, calibration, &session);
  const WatchedMeasuring watched(session);
  double measured = 0;
  StepPrediction prediction = predict(plan, calibration, &session, [&] {
    const RunPlan shallow = shallower_plan(plan, shallower(plan), plan.decisions);
    const StepPair pair = measure_pair(plan, shallow);
    measured = pair.seconds;
    return pair.seconds / pair.ratio.value / pieces(shallow, calibration, session);
  });
  if (measured == 0) {
    session.begin("steps of this model", kPairSeconds / 2);
    measured = measure_step(plan);
  }
  prediction.measured_ms = 1e3 * measured;
  return prediction;
}

}  // namespace l2l::runtime
