#include "runtime/tuning/step_costs.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <sstream>

#include "runtime/tuning/cost_bench.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;

constexpr double kLeast = 1e-12;        // seconds: a calibration holds only what is above 0
constexpr Bytes kLargeCopy = 16 << 20;  // whose time is its bytes over what l2l-bench link measured
constexpr Bytes kLargestStore = 256 << 20;

// All that a program's time can depend on, but for the device.
std::string text_of(const Graph& graph) {
  std::ostringstream text;
  text.precision(9);
  text << graph.name;
  for (const auto& value : graph.values) {
    text << "|" << name_of(value.dtype) << static_cast<int>(value.region) << " " << value.offset;
    for (std::size_t i = 0; i < value.shape.rank(); ++i) text << " " << value.shape[i];
  }
  for (const auto& op : graph.ops) {
    text << "|" << name_of(op.kind);
    for (const auto id : op.inputs) text << " " << id;
    text << ">";
    for (const auto id : op.outputs) text << " " << id;
    const auto& a = op.attributes;
    text << ":" << a.transpose_a << a.transpose_b << a.accumulate << a.causal << a.inverse << a.exact << " "
         << a.probability << " " << a.heads << " " << a.kv_heads << " " << a.sequence << " " << a.vocabulary;
    if (a.window > 0 || a.softcap > 0 || a.gelu) text << " " << a.window << (a.softcap > 0) << a.gelu;
  }
  return text.str();
}

// Blocks of `model` and nothing else, so many that their state is about as large as the model's, up to kLargestStore.
ModelLayout blocks_of(const RunParts& parts) {
  const ModelLayout& model = parts.model.layout;
  const LayerSpec& block = model.layers[static_cast<std::size_t>(parts.model.block(parts.model.blocks()))];
  const GroupSpec& first = model.groups[static_cast<std::size_t>(block.parts[0].group)];
  ModelLayout layout;
  const auto add = [&](std::uint32_t id) {
    GroupSpec group = first;
    group.name = "block " + std::to_string(id);
    group.id = id;
    for (ParameterSpec& parameter : group.parameters) parameter.name += " of " + group.name;
    layout.layers.push_back({group.name, id, {{static_cast<GroupIndex>(id), 0, 0, 0}}, group.elements});
    layout.groups.push_back(std::move(group));
  };
  add(0);
  const Bytes one = eps::ParameterStore::bytes_needed(layout, parts.store).state;
  const Bytes all = eps::ParameterStore::bytes_needed(model, parts.store).state;
  const Bytes wanted = std::min(std::bit_ceil(all), kLargestStore);
  for (std::uint32_t id = 1; id < wanted / one; ++id) add(id);
  return layout;
}

}  // namespace

double measuring_time(double usual) {
  static const double share = [] {
    const char* const text = std::getenv("L2L_MEASURING_TIME");
    const double value = text == nullptr ? 1 : std::strtod(text, nullptr);
    return value > 0 && value <= 1 ? value : 1;
  }();
  return share * usual;
}

StepCosts::StepCosts(const RunParts& parts, Calibration& calibration, bool may_measure)
    : parts_(parts), calibration_(calibration), may_measure_(may_measure) {}

StepCosts::~StepCosts() = default;

template <typename Measure>
Cost StepCosts::look_up(const std::string& name, const std::string& what, const Measure& measure) {
  if (const auto known = found_.find(name); known != found_.end()) return known->second;
  const std::string processor_name = name + ", processor";
  const std::optional<double> seconds = calibration_.find(name), processor = calibration_.find(processor_name);
  if (seconds && processor) {
    ++cached_;
    return found_[name] = {*seconds, *processor};
  }
  if (!may_measure_) {
    if (std::find(missing_.begin(), missing_.end(), what) == missing_.end()) missing_.push_back(what);
    return {};
  }
  if (!bench_) bench_ = std::make_unique<Bench>(parts_);
  Cost cost = measure(*bench_);
  if (!parts_.device->uses_host_memory() && !what.starts_with("update")) cost.processor = 0;  // what waiting takes
  cost = {std::max(cost.seconds, kLeast), std::max(cost.processor, kLeast)};
  calibration_.set(name, cost.seconds);
  calibration_.set(processor_name, cost.processor);
  ++measured_;
  return found_[name] = cost;
}

std::string StepCosts::name_of_launch(const device::Executable& program) const {
  const Graph& graph = program.program().graph;
  return "program " + hash_of(text_of(graph)) + " (" + graph.name + "), " + parts_.device->description();
}

Cost StepCosts::launch(const device::Executable& program, LayerIndex layer, Effort effort) {
  return look_up(name_of_launch(program), "program \"" + program.program().graph.name + "\"",
                 [&](Bench& bench) { return bench.launch(program, layer, effort); });
}

Cost StepCosts::zero(Bytes bytes) {
  if (bytes == 0) return Cost{};
  return look_up("fill of " + std::to_string(bytes) + " bytes, " + parts_.device->description(), "fills",
                 [&](Bench& bench) { return bench.zero(bytes); });
}

Cost StepCosts::copy(Direction direction, Bytes bytes) {
  if (bytes == 0) return Cost{};
  const Bytes throttled = parts_.options.transfer.link_bandwidth;
  const std::optional<double> rate =
      calibration_.find(link_bandwidth(parts_.device->description(), direction == Direction::to_device));
  if (rate && throttled == 0 && bytes >= kLargeCopy) {
    const double seconds = static_cast<double>(bytes) / *rate;
    return Cost{seconds, parts_.device->uses_host_memory() ? seconds : 0};
  }
  return look_up((direction == Direction::to_device ? "copy h2d of " : "copy d2h of ") + std::to_string(bytes) +
                     " bytes, " + parts_.device->description() +
                     (throttled > 0 ? ", link of " + std::to_string(throttled) + " bytes/s" : ""),
                 "copies", [&](Bench& bench) { return bench.copy(direction, bytes); });
}

std::string StepCosts::name_of_update(const ModelLayout& layout) const {
  const eps::StoreOptions& store = parts_.store;
  std::ostringstream name;
  name << "update per parameter, " << parts_.options.optimizer.name << ", " << name_of(store.wire) << " wire, "
       << name_of(store.gradients) << " gradients, " << layout.groups.size() << " groups of "
       << layout.groups[0].elements << " in " << eps::ParameterStore::bytes_needed(layout, store).state << " bytes, "
       << store.devices << " devices, " << store.placement.workers() << " threads, " << name_of(store.moments)
       << " moments" << (store.held() ? ", held" : "");
  return name.str();
}

Cost StepCosts::parameter_update() {
  const ModelLayout layout = blocks_of(parts_);
  return look_up(name_of_update(layout), "update of " + parts_.options.optimizer.name,
                 [&](Bench& bench) { return bench.parameter_update(layout); });
}

std::string StepCosts::name_of_step(const RunPlan& plan) const {
  std::ostringstream text;
  for (const VisitWork& visit : step_work(plan)) {
    for (const auto& launches : visit.launches) text << name_of_launch(*launches.program) << launches.count << "|";
    for (const auto& copies :
         {visit.weights, visit.fetched, visit.reloaded, visit.stashed, visit.saved, visit.gradients}) {
      text << copies.bytes << " " << copies.count << "|";
    }
  }
  text << name_of_update(blocks_of(parts_)) << " " << parts_.options.transfer.link_bandwidth << " "
       << parts_.options.transfer.prefetch << " " << parts_.options.device.execution;
  return hash_of(text.str());
}

double StepCosts::sharing(const RunPlan& plan, const std::function<double()>& measure) {
  return look_up("sharing of step " + name_of_step(plan), "pieces beside each other",
                 [&](Bench&) {
                   return Cost{measure(), 0};
                 })
      .seconds;
}

// A step is predicted without it, too.
std::optional<double> StepCosts::memory_bandwidth() {
  const int threads = parts_.store.placement.workers();
  const std::string name = runtime::memory_bandwidth(threads);
  if (const std::optional<double> known = calibration_.find(name)) {
    ++cached_;
    return known;
  }
  if (!may_measure_) return std::nullopt;
  const double bandwidth = measure_memory(threads);
  calibration_.set(name, bandwidth);
  ++measured_;
  return bandwidth;
}

}  // namespace l2l::runtime
