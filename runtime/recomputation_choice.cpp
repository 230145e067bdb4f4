#include "runtime/recomputation_choice.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/workers.h"
#include "device/recompute/chain.h"
#include "device/recompute/stage.h"
#include "l2l/errors.h"
#include "runtime/block_options.h"
#include "runtime/host_memory.h"
#include "runtime/shallow_run.h"

namespace l2l::runtime {
namespace {

using device::graph::Graph;
using device::graph::Region;
using device::recompute::ChainAnswer;
using device::recompute::ChainBudget;
using device::recompute::LayerOption;
using device::recompute::to_nanoseconds;

constexpr Bytes kNoLimit = Bytes{1} << 50;
constexpr int kMostTries = 12;  // plans of an arena until one fits
constexpr std::size_t kMostMeasured = 5;
constexpr Bytes kMeasuredState = Bytes{256} << 20;

// Blocks of one type, with what they could do.
struct BlockType {
  int type;
  std::vector<int> blocks;  // numbers
  std::vector<BlockOption> options;
};

// The run with the least memory: the layer input alone is kept.
RunPlan plain_plan(const Options& options, Devices& devices, StashPlace stash) {
  Options plain = options;
  plain.recompute = {};
  plain.device.memory = 0;
  plain.eps.stash_memory = 0;
  plain.transfer.stash = name_of(stash);
  plain.data = {};
  plain.checkpoint = {};
  return RunPlan(plain, std::move(devices));
}

class Chooser {
 public:
  Chooser(const Options& options, const RunPlan& plan)
      : options_(options), plan_(plan), costs_(plan, calibration_, /*may_measure=*/true) {
    std::map<int, BlockType> types;
    for (int block = 1; block <= plan.model.blocks(); ++block) {
      const int type = plan.model.type_of[static_cast<std::size_t>(plan.model.block(block))];
      types[type].type = type;
      types[type].blocks.push_back(block);
    }
    for (auto& [type, blocks] : types) types_.push_back(std::move(blocks));
  }
  ~Chooser() { calibration_.save(); }

  RecomputationChoice automatic();
  RecomputationChoice within_budget(device::recompute::Policy policy);

 private:
  // A choice that fits, and its time by the chain.
  struct Candidate {
    RecomputationChoice choice;
    device::recompute::Nanoseconds time;
  };

  const Graph& forward_of(const BlockType& type) const {
    return plan_.model.types[static_cast<std::size_t>(type.type)].forward;
  }
  BlockMenu menu_for(const BlockType& type) { return {costs_, *plan_.device, plan_.model.block(type.blocks.front())}; }
  std::vector<Candidate> candidates();
  std::optional<Candidate> fit(StashPlace stash);
  std::optional<Candidate> fixed(StashPlace stash, const std::string& policy);
  std::vector<device::recompute::LayerType> chain(StashPlace stash);
  std::vector<double> measured_steps(const std::vector<Candidate>& candidates);
  LayerOption layer_option(const BlockOption& option, StashPlace stash);
  double copy_seconds(Direction direction, Bytes bytes) {
    return costs_.copy(direction, bytes).value_or(Cost{}).seconds;
  }
  RecomputationChoice spread(const device::recompute::ChainChoice& choice, StashPlace stash) const;
  Bytes arena_of(const RecomputationChoice& choice) const;
  Bytes device_limit() const;
  Bytes host_limit() const;
  std::string explain(const BlockType& type, const BlockOption& option, std::size_t layers, StashPlace stash) const;
  // Each microbatch visits a block once each way.
  double microbatches() const { return plan_.execution.microbatches; }

  const Options& options_;
  const RunPlan& plan_;
  Calibration calibration_;
  StepCosts costs_;
  std::vector<BlockType> types_;
};

// On a host device without a throttled link, copies and compute share the cores; else each has its own time.
LayerOption Chooser::layer_option(const BlockOption& option, StashPlace stash) {
  LayerOption layer;
  const bool host = stash == StashPlace::host;
  const Bytes bytes = option.saved + plan_.model.activation_bytes();
  const double out = host ? copy_seconds(Direction::to_host, plan_.model.activation_bytes()) +
                                (option.saved > 0 ? copy_seconds(Direction::to_host, option.saved) : 0)
                          : 0;
  const double back = host ? copy_seconds(Direction::to_device, plan_.model.activation_bytes()) +
                                 (option.saved > 0 ? copy_seconds(Direction::to_device, option.saved) : 0)
                           : 0;
  const bool shared = plan_.device->uses_host_memory() && options_.transfer.link_bandwidth == 0;
  const double cores = shared ? available_cores() : 1;
  const auto visit = [&](const Cost& compute, double copies) {
    const double alone = std::max(compute.seconds, (compute.processor + copies) / cores);
    return to_nanoseconds(microbatches() * (shared ? alone : compute.seconds));
  };
  layer.forward = visit(option.forward, out);
  layer.backward = visit(option.backward, back);
  if (!shared) {
    layer.kept_d2h = to_nanoseconds(microbatches() * out);
    layer.kept_h2d = to_nanoseconds(microbatches() * back);
  }
  const Bytes all = bytes * static_cast<Bytes>(plan_.execution.live_microbatches());
  (host ? layer.host : layer.device) = all;
  const Bytes slots = 3 + static_cast<Bytes>(plan_.execution.prefetch);  // on their way out and back
  layer.arena = option.scratch + (host ? slots * option.saved : 0);
  return layer;
}

std::vector<device::recompute::LayerType> Chooser::chain(StashPlace stash) {
  std::vector<device::recompute::LayerType> chain;
  for (BlockType& type : types_) {
    if (type.options.empty()) type.options = menu_for(type).options(forward_of(type));
    device::recompute::LayerType& layers = chain.emplace_back();
    layers.layers = type.blocks.size();
    const LayerIndex layer = plan_.model.block(type.blocks.front());
    if (plan_.execution.execution == Execution::relay) {
      const double wire = copy_seconds(Direction::to_device, plan_.model.wire_bytes(layer));
      layers.weights_up_h2d = layers.weights_down_h2d = to_nanoseconds(wire);
    }
    const Bytes gradients =
        plan_.model.wire_bytes(layer) / size_of(plan_.model.compute) * size_of(plan_.execution.gradients);
    layers.gradients_d2h = to_nanoseconds(copy_seconds(Direction::to_host, gradients));
    for (const BlockOption& option : type.options) layers.options.push_back(layer_option(option, stash));
  }
  return chain;
}

Bytes Chooser::device_limit() const {
  const Bytes set = options_.device.memory, there = plan_.device_available.value_or(kNoLimit);
  return set > 0 ? std::min(set, there) : there;
}

// What the run without a stash leaves of the machine, shared by the devices; or the limit that was set.
Bytes Chooser::host_limit() const {
  const HostMemory memory;
  const auto devices = static_cast<Bytes>(plan_.execution.devices);
  const Bytes all = memory.resident() + memory.available().bytes;
  const Bytes stash = devices * host_staging(plan_.model, plan_.execution).stash;
  const Bytes needed = plan_.contract.host_bytes - std::min(plan_.contract.host_bytes, stash);
  const Bytes free = all - std::min(all, needed);
  const Bytes set = options_.eps.stash_memory;
  return (set > 0 ? std::min(set, free) : free) / devices;
}

// How many layers of a type take an option: its first blocks take the first ones, which keep least.
RecomputationChoice Chooser::spread(const device::recompute::ChainChoice& choice, StashPlace stash) const {
  RecomputationChoice result;
  result.stash = stash;
  result.recomputation.of_block.resize(static_cast<std::size_t>(plan_.model.blocks()));
  for (std::size_t t = 0; t < types_.size(); ++t) {
    auto block = types_[t].blocks.begin();
    for (std::size_t option = 0; option < types_[t].options.size(); ++option) {
      const std::size_t layers = choice.layers[t][option];
      if (layers == 0) continue;
      result.recomputation.policies.push_back(types_[t].options[option].policy);
      result.recomputation.explanation.push_back(explain(types_[t], types_[t].options[option], layers, stash));
      for (std::size_t i = 0; i < layers; ++i) {
        result.recomputation.of_block[static_cast<std::size_t>(*block++ - 1)] =
            static_cast<int>(result.recomputation.policies.size()) - 1;
      }
    }
  }
  return result;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
  return text;
}

std::string Chooser::explain(const BlockType& type, const BlockOption& option, std::size_t layers,
                             StashPlace stash) const {
  std::string kept, again;
  const Graph& forward = forward_of(type);
  for (const device::graph::ValueId id : values_to_save(forward, device::recompute::Policy::none)) {
    const device::graph::Value& now = option.policy.visits.forward.value(id);
    std::string& list = now.region == Region::saved ? kept : again;
    list += (list.empty() ? "" : ", ") + now.name + " (" + format_bytes(now.bytes()) + ")";
  }
  std::string text = std::to_string(layers) + " of " + std::to_string(type.blocks.size()) + " blocks (\"" +
                     forward.name + "\"), " + option.policy.name + ": a microbatch takes " +
                     milliseconds(option.forward.seconds) + " up and " + milliseconds(option.backward.seconds) +
                     " down";
  if (!kept.empty()) text += "; on the " + std::string(name_of(stash)) + ": " + kept;
  if (!again.empty()) text += "; recomputed: " + again;
  return text;
}

Bytes Chooser::arena_of(const RecomputationChoice& choice) const {
  models::Model model = plan_.model;
  apply(choice.recomputation, model);
  std::vector<std::unique_ptr<Programs>> programs;
  programs.push_back(std::make_unique<Programs>(*plan_.device, model, plan_.execution.gradients));
  ExecutionPlan execution = plan_.execution;
  execution.stash = choice.stash;
  return ArenaPlan(model, programs, execution).bytes();
}

// The arena shares memory in ways that the sums of a chain do not see: its budget moves until the arena fits.
std::optional<Chooser::Candidate> Chooser::fit(StashPlace stash) {
  const std::vector<device::recompute::LayerType> chain = this->chain(stash);
  const Bytes limit = device_limit();
  ChainBudget budget{limit, host_limit()};
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    ChainAnswer answer = device::recompute::choose(chain, budget);
    if (!answer.choice) return std::nullopt;
    RecomputationChoice result = spread(*answer.choice, stash);
    const Bytes needed = arena_of(result);
    if (needed <= limit) return Candidate{std::move(result), answer.choice->time};
    const Bytes used = answer.choice->device, excess = needed - limit;
    if (used <= excess) return std::nullopt;
    budget.device = used - std::max<Bytes>(1, excess);
  }
  return std::nullopt;
}

// All blocks of a type take the option of that name, or, where it has none, the one that keeps least.
std::optional<Chooser::Candidate> Chooser::fixed(StashPlace stash, const std::string& policy) {
  device::recompute::ChainChoice choice;
  const std::vector<device::recompute::LayerType> chain = this->chain(stash);
  for (std::size_t t = 0; t < types_.size(); ++t) {
    const auto named = std::find_if(types_[t].options.begin(), types_[t].options.end(),
                                    [&](const BlockOption& option) { return option.policy.name == policy; });
    const std::size_t option =
        named == types_[t].options.end() ? 0 : static_cast<std::size_t>(named - types_[t].options.begin());
    choice.layers.emplace_back(types_[t].options.size())[option] = chain[t].layers;
    choice.host += chain[t].layers * chain[t].options[option].host;
    choice.time += chain[t].layers * time_of(chain[t], chain[t].options[option]);
  }
  RecomputationChoice result = spread(choice, stash);
  if (choice.host > host_limit() || arena_of(result) > device_limit()) return std::nullopt;
  return Candidate{std::move(result), choice.time};
}

// The chain's answers and the fixed policies, at both places of the stash, as far as they fit; the shortest first, and
// none that is much longer.
std::vector<Chooser::Candidate> Chooser::candidates() {
  std::vector<Candidate> found;
  for (const StashPlace stash : {StashPlace::device, StashPlace::host}) {
    if (options_.transfer.stash != "auto" && options_.transfer.stash != name_of(stash)) continue;
    for (const char* const policy : {"", "full", "min_cut", "selective", "none"}) {
      std::optional<Candidate> candidate = *policy == '\0' ? fit(stash) : fixed(stash, policy);
      const auto same = [&](const Candidate& other) {
        return other.choice.stash == stash &&
               other.choice.recomputation.explanation == candidate->choice.recomputation.explanation;
      };
      if (candidate && std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(*candidate));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  const auto longer = [&](const Candidate& candidate) { return 4 * candidate.time > 5 * found.front().time; };
  found.erase(std::find_if(found.begin(), found.end(), longer), found.end());
  if (found.size() > kMostMeasured) found.resize(kMostMeasured);
  return found;
}

// A step of each candidate on a shallower model, over a step that keeps the layer inputs alone on the host: by the
// calibration, or trained now, in turn. A ratio, since a machine is not always equally fast.
std::vector<double> Chooser::measured_steps(const std::vector<Candidate>& candidates) {
  std::vector<std::unique_ptr<RunPlan>> plans;
  const auto add = [&](const RecomputationChoice& choice) {
    Options options = shallower(plan_, kMeasuredState);
    options.transfer.stash = name_of(choice.stash);
    plans.emplace_back(new RunPlan(shallower_plan(plan_, options, choice.recomputation)));
  };
  for (const Candidate& candidate : candidates) add(candidate.choice);
  std::vector<std::string> names;
  std::vector<double> ratios;
  for (const auto& plan : plans) {
    names.push_back("step over the plain one, " + StepCosts(*plan, calibration_, false).name_of_step());
    if (const std::optional<double> known = calibration_.find(names.back())) ratios.push_back(*known);
  }
  if (ratios.size() == candidates.size()) return ratios;
  add({uniform_recomputation(plan_.model, device::recompute::Policy::full), StashPlace::host});
  std::vector<const RunPlan*> all;
  for (const auto& plan : plans) all.push_back(plan.get());
  std::vector<double> seconds = measure_steps(all);
  for (std::size_t i = 0; i < names.size(); ++i) {
    seconds[i] /= seconds.back();
    calibration_.set(names[i], seconds[i]);
  }
  seconds.pop_back();
  return seconds;
}

// Where the device computes on the host's cores, what copies and compute cost each other decides between choices that
// are close, and only running them shows it.
RecomputationChoice Chooser::automatic() {
  std::vector<Candidate> candidates = this->candidates();
  if (candidates.empty()) {  // the plan with the least says by how much nothing fits
    return {uniform_recomputation(plan_.model, device::recompute::Policy::full),
            options_.transfer.stash == "device" ? StashPlace::device : StashPlace::host};
  }
  std::size_t best = 0;
  if (computes_here(types_.front().options.front().forward) && candidates.size() > 1) {
    const std::vector<double> seconds = measured_steps(candidates);
    best = static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
  }
  return std::move(candidates[best].choice);
}

RecomputationChoice Chooser::within_budget(device::recompute::Policy policy) {
  RecomputationChoice result{uniform_recomputation(plan_.model, policy), plan_.execution.stash};
  std::map<int, bool> done;
  for (const BlockType& type : types_) {
    const int index = result.recomputation.of_block[static_cast<std::size_t>(type.blocks.front() - 1)];
    BlockMenu menu = menu_for(type);
    BlockPolicy& block = result.recomputation.policies[static_cast<std::size_t>(index)];
    device::recompute::StageProblem problem{
        block.visits.backward, {}, [&](const Graph& graph) { return menu.scratch_of(graph); }};
    for (const Cost& cost : menu.costs_of(block.visits.backward)) problem.times.push_back(to_nanoseconds(cost.seconds));
    const auto programs = device::recompute::stage(problem);
    const auto& program = device::recompute::fastest_within(programs, options_.recompute.budget);
    result.recomputation.explanation.push_back(
        "\"" + block.visits.backward.name + "\": " + format_bytes(program.scratch) + " of scratch (" + program.source +
        "), of " + format_bytes(programs.front().scratch) + " to " + format_bytes(programs.back().scratch) + "; " +
        milliseconds(1e-9 * static_cast<double>(program.time)) + " a microbatch, " +
        milliseconds(1e-9 * static_cast<double>(programs.back().time)) + " without a limit");
    block.visits.backward = program.graph;
  }
  return result;
}

}  // namespace

bool leaves_choice(const RecomputeOptions& options) { return options.policy == "auto" || options.budget > 0; }

RecomputationChoice choose_recomputation(const Options& options, Devices& devices) {
  const StashPlace stash = options.transfer.stash == "device" ? StashPlace::device : StashPlace::host;
  RunPlan plan = plain_plan(options, devices, stash);
  RecomputationChoice choice;
  {
    Chooser chooser(options, plan);
    choice = options.recompute.policy == "auto"
                 ? chooser.automatic()
                 : chooser.within_budget(device::recompute::parse_policy(options.recompute.policy));
  }
  plan.programs.clear();
  devices = std::move(plan.devices);
  return choice;
}

}  // namespace l2l::runtime
