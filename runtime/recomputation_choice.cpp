#include "runtime/recomputation_choice.h"

#include <algorithm>
#include <limits>

#include "device/recompute/stage.h"
#include "l2l/errors.h"
#include "runtime/choice_text.h"
#include "runtime/host_memory.h"
#include "runtime/shallow_run.h"

namespace l2l::runtime {
namespace {

using device::graph::Graph;
using device::recompute::to_nanoseconds;

constexpr Bytes kNoLimit = Bytes{1} << 50;
constexpr std::size_t kMostMeasured = 6;
constexpr double kNoise = 1.01;  // between two measured steps that are equal
constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr Bytes kMeasuredState = Bytes{256} << 20;
constexpr std::int64_t kMeasuredMicrobatches = 8, kMeasuredVocabulary = 4096;

// The run with the least memory: the layer input alone is kept.
RunPlan plain_plan(const Options& options, Devices& devices) {
  Options plain = options;
  plain.recompute = {};
  plain.device.memory = 0;
  plain.eps.stash_memory = 0;
  if (plain.transfer.stash == "auto") plain.transfer.stash = "host";
  plain.data = {};
  plain.checkpoint = {};
  return RunPlan(plain, std::move(devices), nullptr, RunPlan::Limits::unchecked);
}

class Chooser {
 public:
  Chooser(const Options& options, const RunPlan& plan)
      : options_(options),
        plan_(plan),
        costs_(plan, calibration_, /*may_measure=*/true),
        chain_(plan, options.transfer, costs_) {}
  ~Chooser() { calibration_.save(); }

  Arrangement automatic();
  // Seconds of the step that automatic() takes for the shortest, without what no microbatch changes; nothing: none
  // fits.
  std::optional<double> predicted();
  Arrangement within_budget(device::recompute::Policy policy);

 private:
  using Candidate = BlockChain::Candidate;

  std::vector<Candidate> candidates();
  Options measured_options() const;
  std::vector<double> measured_steps(const std::vector<Candidate>& candidates);
  double measured_step(const Candidate& candidate, const RunPlan& plain);
  Arrangement least() const;
  Bytes device_limit() const;
  Bytes free_host() const;
  BlockChain::Limits limits() const;

  const Options& options_;
  const RunPlan& plan_;
  Calibration calibration_;
  StepCosts costs_;
  BlockChain chain_;
};

Bytes Chooser::device_limit() const {
  const Bytes set = options_.device.memory, there = plan_.device_available.value_or(kNoLimit);
  return set > 0 ? std::min(set, there) : there;
}

// What the run leaves of the machine for the stash, of each device; where devices take host memory, for their arenas,
// too.
Bytes Chooser::free_host() const {
  const HostMemory memory;
  const auto devices = static_cast<Bytes>(plan_.execution.devices);
  const Bytes all = memory.resident() + memory.available().bytes;
  const Bytes arena = plan_.device->uses_host_memory() ? plan_.arena->bytes() : 0;
  const Bytes counted = devices * (host_staging(plan_.model, plan_.execution).stash + arena);
  const Bytes needed = plan_.contract.host_bytes - std::min(plan_.contract.host_bytes, counted);
  return (all - std::min(all, needed)) / devices;
}

BlockChain::Limits Chooser::limits() const {
  const Bytes free = free_host(), set = options_.eps.stash_memory;
  BlockChain::Limits limits{device_limit(), free, kNoLimit};
  if (set > 0) limits.host = std::min(free, set / static_cast<Bytes>(plan_.execution.devices));
  if (plan_.device->uses_host_memory()) {
    limits.device = std::min(limits.device, free);
    limits.together = free;
  }
  return limits;
}

// The chain's answers and the fixed policies, with the stash at either place or at both, as far as they fit; the
// shortest first, and none that is much longer.
std::vector<BlockChain::Candidate> Chooser::candidates() {
  const BlockChain::Limits limits = this->limits();
  std::vector<Candidate> found;
  const auto add = [&](const BlockChain::Alike& alike) {
    std::optional<Candidate> candidate = chain_.shortest(alike, limits);
    const auto same = [&](const Candidate& other) { return other.ways == candidate->ways; };
    if (candidate && std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(*candidate));
  };
  add({});
  for (const StashPlace stash : {StashPlace::device, StashPlace::host}) {
    if (options_.transfer.stash != "auto" && options_.transfer.stash != name_of(stash)) continue;
    for (const char* const policy : {"", "full", "min_cut", "selective", "none"}) add({stash, policy});
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  const auto longer = [&](const Candidate& candidate) { return 4 * candidate.time > 5 * found.front().time; };
  found.erase(std::find_if(found.begin(), found.end(), longer), found.end());
  if (found.size() > kMostMeasured) found.resize(kMostMeasured);
  return found;
}

// A model that shows what pieces cost each other, and takes little memory beside the one that is planned.
Options Chooser::measured_options() const {
  Options options = shallower(plan_, kMeasuredState);
  options.batch.micro_batches = std::min(options.batch.micro_batches, kMeasuredMicrobatches * options.device.count);
  options.model.vocabulary = std::min(options.model.vocabulary, kMeasuredVocabulary);
  return options;
}

// A step on a shallower model over one that keeps the layer inputs alone, on the host where that is allowed: by the
// calibration, or trained now. Where the two do not fit beside each other, nothing is known in the candidate's favour.
double Chooser::measured_step(const Candidate& candidate, const RunPlan& plain) {
  try {
    const RunPlan plan = shallower_plan(plan_, measured_options(), candidate.arrangement);
    const std::string name = "step " + StepCosts(plan, calibration_, false).name_of_step() + " over " +
                             StepCosts(plain, calibration_, false).name_of_step();
    if (const std::optional<double> known = calibration_.find(name)) return *known;
    const double ratio = measure_ratio(plan, plain);
    calibration_.set(name, ratio);
    return ratio;
  } catch (const OutOfMemory&) {
    return kUnknown;
  }
}

std::vector<double> Chooser::measured_steps(const std::vector<Candidate>& candidates) {
  std::vector<double> steps(candidates.size(), kUnknown);
  try {
    const RunPlan plain = shallower_plan(plan_, measured_options(), least());
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = measured_step(candidates[i], plain);
  } catch (const OutOfMemory&) {  // of the plain run: nothing is known of any
  }
  return steps;
}

// The choice with the least memory: what the plain run does.
Arrangement Chooser::least() const {
  return {uniform_recomputation(plan_.model, device::recompute::Policy::full), plan_.execution.places};
}

// Where the device computes on the host's cores, what copies and compute cost each other decides between choices that
// are close, and only running them shows it; of those that run equally fast, the one that was predicted to. Where
// nothing fits, the plan with the least says by how much.
Arrangement Chooser::automatic() {
  std::vector<Candidate> candidates = this->candidates();
  if (candidates.empty()) return least();
  std::size_t best = 0;
  if (candidates.size() > 1 && chain_.computes_here()) {
    const std::vector<double> steps = measured_steps(candidates);
    const double shortest = *std::min_element(steps.begin(), steps.end());
    while (steps[best] > kNoise * shortest) ++best;
  }
  candidates[best].arrangement.recomputation.explanation = explain(plan_, chain_.types(), candidates[best], costs_);
  return std::move(candidates[best].arrangement);
}

std::optional<double> Chooser::predicted() {
  if (plan_.arena->bytes() > limits().device) return std::nullopt;
  const std::vector<Candidate> candidates = this->candidates();
  if (candidates.empty()) return std::nullopt;
  double seconds = 1e-9 * static_cast<double>(candidates.front().time);
  for (const VisitWork& visit : step_work(plan_)) {
    if (plan_.model.is_block(visit.layer)) continue;
    for (const VisitWork::Launches& launches : visit.launches) {
      seconds += launches.count * costs_.launch(*launches.program, visit.layer).value_or(Cost{}).seconds;
    }
  }
  return seconds;
}

Arrangement Chooser::within_budget(device::recompute::Policy policy) {
  Arrangement result{uniform_recomputation(plan_.model, policy), {}};
  for (const BlockChain::Type& type : chain_.types()) {
    const int index = result.recomputation.of_block[static_cast<std::size_t>(type.blocks.front() - 1)];
    BlockMenu menu = chain_.menu_for(type);
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

// Devices that a plan has for a while, back whatever happens.
struct Lent {
  RunPlan& plan;
  Devices& owner;
  ~Lent() {
    plan.programs.clear();
    owner = std::move(plan.devices);
  }
};

// Uses the devices for a chooser of these options.
template <typename Use>
auto with_chooser(const Options& options, Devices& devices, const Use& use) {
  RunPlan plan = plain_plan(options, devices);
  const Lent lent{plan, devices};
  Chooser chooser(options, plan);
  return use(chooser);
}

Options with_micro_batch(Options options, std::int64_t micro_batch) {
  options.batch.micro_batch = micro_batch;
  options.batch.micro_batches = options.batch.minibatch / micro_batch;
  return options;
}

// What a run with that microbatch would take; nothing: it is too large for something.
std::optional<double> predicted_step(const Options& options, Devices& devices) {
  try {
    validate_options(options);
    return with_chooser(options, devices, [](Chooser& chooser) { return chooser.predicted(); });
  } catch (const BadInput&) {  // or OutOfMemory
    return std::nullopt;
  }
}

// The least of those that are equal. Where nothing fits, the smallest, whose plan says by how much. Returns why.
std::string choose_micro_batch(Options& options, Devices& devices, const std::vector<std::int64_t>& micro_batches) {
  std::optional<double> shortest;
  std::int64_t best = micro_batches.front();
  std::string all;
  for (const std::int64_t micro_batch : micro_batches) {
    const std::optional<double> seconds = predicted_step(with_micro_batch(options, micro_batch), devices);
    all += (all.empty() ? "" : ", ") + std::to_string(micro_batch) + ": " +
           (seconds ? milliseconds(*seconds) : "does not fit");
    if (seconds && (!shortest || *seconds < *shortest)) shortest = seconds, best = micro_batch;
  }
  options = with_micro_batch(options, best);
  return "microbatch: " + std::to_string(best) + " of the minibatch's " + std::to_string(options.batch.minibatch) +
         " sequences (layers of a step, by sequences: " + all + "); set batch.micro_batch to keep it";
}

}  // namespace

Arrangement choose_arrangement(Options& options, Devices& devices, const std::vector<std::int64_t>& micro_batches) {
  const Bytes before = HostMemory().peak_resident();
  std::string micro_batch;
  if (micro_batches.size() > 1) micro_batch = choose_micro_batch(options, devices, micro_batches);
  Arrangement arrangement = with_chooser(options, devices, [&](Chooser& chooser) {
    return options.recompute.policy == "auto"
               ? chooser.automatic()
               : chooser.within_budget(device::recompute::parse_policy(options.recompute.policy));
  });
  std::vector<std::string>& lines = arrangement.recomputation.explanation;
  if (!micro_batch.empty()) lines.insert(lines.begin(), std::move(micro_batch));
  const Bytes after = HostMemory().peak_resident();
  if (after > before) arrangement.peak_of_choosing = after;
  return arrangement;
}

}  // namespace l2l::runtime
