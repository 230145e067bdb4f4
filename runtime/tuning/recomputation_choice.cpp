#include "runtime/tuning/recomputation_choice.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "compiler/remat/stage.h"
#include "core/host_memory.h"
#include "l2l/errors.h"
#include "runtime/tuning/choice_text.h"
#include "runtime/tuning/step_choice.h"
#include "runtime/tuning/step_ratios.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;
using compiler::remat::to_nanoseconds;

constexpr Bytes kNoLimit = Bytes{1} << 50;
constexpr std::size_t kMostMeasured = 6;
constexpr Bytes kMeasuredState = Bytes{256} << 20;
constexpr std::int64_t kMeasuredMicrobatches = 8, kMeasuredVocabulary = 4096;
constexpr StepRatio kUnknown{std::numeric_limits<double>::infinity(), 0};

}  // namespace

RecomputationChoice::RecomputationChoice(const Options& options, const RunPlan& least)
    : options_(options),
      least_(least),
      costs_(least, calibration_, /*may_measure=*/true),
      chain_(least, options.transfer, costs_) {}

RecomputationChoice::~RecomputationChoice() { calibration_.save(); }

Bytes RecomputationChoice::device_limit() const {
  const Bytes set = options_.device.memory, there = least_.device_available.value_or(kNoLimit);
  return set > 0 ? std::min(set, there) : there;
}

// What the run leaves of the machine for the stash, of each device; where devices take host memory, for their arenas,
// too.
Bytes RecomputationChoice::free_host() const {
  const HostMemory memory;
  const auto devices = static_cast<Bytes>(least_.execution.devices);
  const Bytes all = memory.resident() + memory.available().bytes;
  const Bytes arena = least_.device->uses_host_memory() ? least_.arena->bytes() : 0;
  const Bytes counted = devices * (host_staging(least_.model, least_.execution).stash + arena);
  const Bytes needed = least_.contract.host_bytes - std::min(least_.contract.host_bytes, counted);
  return (all - std::min(all, needed)) / devices;
}

BlockChain::Limits RecomputationChoice::limits() const {
  const Bytes free = free_host(), set = options_.eps.stash_memory;
  BlockChain::Limits limits{device_limit(), free, kNoLimit};
  if (set > 0) limits.host = std::min(free, set / static_cast<Bytes>(least_.execution.devices));
  if (least_.device->uses_host_memory()) {
    limits.device = std::min(limits.device, free);
    limits.together = free;
  }
  return limits;
}

// The chain's answers and the fixed policies, with the stash at either place or at both, as far as they fit; the
// shortest first, and none that is much longer.
std::vector<BlockChain::Candidate> RecomputationChoice::candidates() {
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
  std::stable_sort(found.begin(), found.end());
  const auto longer = [&](const Candidate& candidate) { return 4 * candidate.time > 5 * found.front().time; };
  found.erase(std::find_if(found.begin(), found.end(), longer), found.end());
  if (found.size() > kMostMeasured) found.resize(kMostMeasured);
  return found;
}

// A model that shows what pieces cost each other, and takes little memory beside the one that is planned.
Options RecomputationChoice::measured_options() const {
  Options options = shallower(least_, kMeasuredState);
  options.batch.micro_batches = std::min(options.batch.micro_batches, kMeasuredMicrobatches * options.device.count);
  if (options.model.vocabulary > kMeasuredVocabulary) {
    options.model.vocabulary = kMeasuredVocabulary;
    options.data.mask_token = -1;
  }
  return options;
}

// On a shallower model, over a step of the plain run. Where the machine is busy, those that may be the shortest are
// measured thoroughly: the shortest of several that were measured once was the luckiest. Where the two do not fit
// beside each other, nothing is known in the candidate's favour.
std::vector<StepRatio> RecomputationChoice::measured_steps(const std::vector<Candidate>& candidates) {
  std::vector<StepRatio> steps(candidates.size(), kUnknown);
  try {
    StepRatios ratios(least_, measured_options(), calibration_);
    std::vector<std::unique_ptr<const RunPlan>> runs(candidates.size());
    const auto measure = [&](std::size_t i, Effort effort) {
      try {
        if (!runs[i]) runs[i].reset(new RunPlan(ratios.run(candidates[i].arrangement)));
        steps[i] = ratios.over_plain(*runs[i], effort);
      } catch (const OutOfMemory&) {
      }
    };
    for (std::size_t i = 0; i < steps.size(); ++i) measure(i, Effort::quick);
    for (const std::size_t i : worth_measuring_again(steps)) measure(i, Effort::thorough);
  } catch (const OutOfMemory&) {  // of the plain run: nothing is known of any
  }
  return steps;
}

Arrangement RecomputationChoice::least() const {
  return {uniform_recomputation(least_.model, compiler::remat::Policy::full), least_.execution.places};
}

// Where the device computes on the host's cores, what copies and compute cost each other decides between choices that
// are close, and only running them shows it; of those that run equally fast, the one that was predicted to. Where
// nothing fits, the plan with the least says by how much.
Arrangement RecomputationChoice::automatic() {
  std::vector<Candidate> candidates = this->candidates();
  if (candidates.empty()) return least();
  const bool measured = candidates.size() > 1 && chain_.computes_here();
  const std::size_t best = measured ? shortest_of(measured_steps(candidates)) : 0;
  candidates[best].arrangement.recomputation.explanation = explain(least_, chain_.types(), candidates[best], costs_);
  return std::move(candidates[best].arrangement);
}

std::optional<double> RecomputationChoice::predicted() {
  if (least_.arena->bytes() > limits().device) return std::nullopt;
  const std::vector<Candidate> candidates = this->candidates();
  if (candidates.empty()) return std::nullopt;
  double seconds = 1e-9 * static_cast<double>(candidates.front().time);
  for (const VisitWork& visit : step_work(least_)) {
    if (least_.model.is_block(visit.layer)) continue;
    for (const VisitWork::Launches& launches : visit.launches) {
      seconds += launches.count * costs_.launch(*launches.program, visit.layer).value_or(Cost{}).seconds;
    }
  }
  return seconds;
}

Arrangement RecomputationChoice::within_budget(compiler::remat::Policy policy) {
  Arrangement result{uniform_recomputation(least_.model, policy), {}};
  for (const BlockChain::Type& type : chain_.types()) {
    const int index = result.recomputation.of_block[static_cast<std::size_t>(type.blocks.front() - 1)];
    BlockMenu menu = chain_.menu_for(type);
    BlockPolicy& block = result.recomputation.policies[static_cast<std::size_t>(index)];
    compiler::remat::StageProblem problem{
        block.visits.backward, {}, [&](const Graph& graph) { return menu.scratch_of(graph); }};
    for (const Cost& cost : menu.costs_of(block.visits.backward)) problem.times.push_back(to_nanoseconds(cost.seconds));
    const auto programs = compiler::remat::stage(problem);
    const auto& program = compiler::remat::fastest_within(programs, options_.recompute.budget);
    result.recomputation.explanation.push_back(
        "\"" + block.visits.backward.name + "\": " + format_bytes(program.scratch) + " of scratch (" + program.source +
        "), of " + format_bytes(programs.front().scratch) + " to " + format_bytes(programs.back().scratch) + "; " +
        milliseconds(1e-9 * static_cast<double>(program.time)) + " a microbatch, " +
        milliseconds(1e-9 * static_cast<double>(programs.back().time)) + " without a limit");
    block.visits.backward = program.graph;
  }
  return result;
}

}  // namespace l2l::runtime
