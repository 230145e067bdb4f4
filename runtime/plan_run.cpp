#include "runtime/plan_run.h"

#include <algorithm>

#include "core/allocator_roles.h"
#include "core/error_place.h"
#include "core/host_memory.h"
#include "core/log.h"
#include "core/process_limits.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/unused_keys.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/tuning/explanation.h"
#include "runtime/tuning/kept_kernels.h"
#include "runtime/tuning/scratch_budget.h"
#include "runtime/tuning/step_ratios.h"

namespace l2l::runtime {
namespace {

// What was measured is kept although a later stage fails.
struct KeptCalibration : Calibration {
  ~KeptCalibration() { save(); }
};

// What may be decided for a run, and what of it fits.
struct Study {
  RunParts parts;
  Candidates candidates;
  std::vector<Proposal> proposals;
  int measured, estimated;  // figures that the above rest on

  // Of the layers of a step.
  double seconds() const { return 1e-9 * static_cast<double>(proposals.front().time) + candidates.seconds_elsewhere; }
};

// What is measured with.
struct Bench {
  Calibration& calibration;
  MeasuringSession& session;

  StepCosts costs(const RunParts& parts) const { return {parts, calibration, &session}; }
};

// Choosing for a run that cannot fit would be in vain.
Study study(const RunParts& parts, const Bench& bench) {
  const MemoryLimits limits = memory_limits(parts);
  if (!limits.leave_enough) return {parts, {}, {}, 0, 0};
  StepCosts costs = bench.costs(parts);
  costs.announce([&](StepCosts& announcing) { block_candidates(parts, announcing); });
  Candidates candidates = block_candidates(parts, costs);
  std::vector<Proposal> proposals = propose(parts, candidates, limits);
  return {parts, std::move(candidates), std::move(proposals), costs.measured() + costs.cached(), costs.estimated()};
}

// Nothing: microbatches of this size are too large for something.
std::optional<Study> study_where_it_fits(const RunParts& whole, std::int64_t micro_batch, const Bench& bench) {
  try {
    Study found = study(with_micro_batch(whole, micro_batch), bench);
    return found.proposals.empty() ? std::nullopt : std::optional(std::move(found));
  } catch (const BadInput&) {  // or OutOfMemory
    return std::nullopt;
  }
}

// With the microbatch that makes the step shortest; of equal ones the least. Where nothing fits, the smallest, so that
// the refusal says by how much. Sets `why`, for people.
Study study_of_best_micro_batch(const RunParts& parts, const Bench& bench, std::string& why) {
  const std::int64_t minibatch = parts.options.batch.minibatch;
  const std::vector<std::int64_t> sizes =
      micro_batch_candidates(minibatch, shares_of(parts.options.batch, parts.options.all_groups()));
  if (sizes.size() == 1) return study(parts, bench);
  std::optional<Study> best;
  std::string all;
  for (const std::int64_t size : sizes) {
    std::optional<Study> found = study_where_it_fits(parts, size, bench);
    all += (all.empty() ? "" : ", ") + std::to_string(size) + ": " +
           (found ? milliseconds(found->seconds()) : "does not fit");
    if (found && (!best || found->seconds() < best->seconds())) best = std::move(found);
  }
  if (!best) best = study(with_micro_batch(parts, sizes.front()), bench);
  why = "microbatch: " + std::to_string(best->parts.options.batch.micro_batch) + " of the minibatch's " +
        std::to_string(minibatch) + " sequences (layers of a step, by sequences: " + all +
        "); set batch.micro_batch to keep it";
  return std::move(*best);
}

constexpr const char* kMayChange = "l2l-train and tune() measure first, for some seconds, and may choose otherwise";

// For people: what a choice rests on, where that is not all that could be measured; else empty. `close`: choices that
// were not compared by their steps.
std::string grounds(int measured, int estimated, std::size_t close, const MeasuringSession& session) {
  if (estimated == 0 && close == 0) return {};
  std::string text = "chosen ";
  if (close > 0) text += "by prediction among " + std::to_string(close) + " close choices, ";
  text += "from " + std::to_string(measured) + " measured and " + std::to_string(estimated) +
          " estimated figures; l2l-plan --check measures the rest";
  return session.guessed() ? text + "; " + kMayChange : text;
}

// Where the device computes on the host's cores, what copies and compute cost each other decides between proposals that
// are close, and only running them shows it. Where nothing fits, the run with the least memory shows by how much.
Decisions decisions_of(const Study& study, const Bench& bench) {
  const auto& [parts, candidates, proposals, measured, estimated] = study;
  if (proposals.empty()) return least_decisions(parts);
  std::vector<StepRatio> ratios;
  if (proposals.size() > 1 && parts.model.blocks_train_alike() &&
      computes_here(candidates.types.back().programs.front().forward)) {
    ratios = measure_steps(parts, proposals, bench.calibration, bench.session);
  }
  const Proposal& best = decide(proposals, ratios);
  Decisions decisions = best.decisions;
  StepCosts costs = bench.costs(parts);
  decisions.explanation = explain(parts, candidates, best, costs);
  decisions.summary = summarize(candidates, best);
  if (bench.session.guessed()) decisions.summary += std::string("; ") + kMayChange;
  const bool by_prediction = !ratios.empty() && is_unknown(ratios.front());
  const std::string why = grounds(measured, estimated, by_prediction ? proposals.size() : 0, bench.session);
  if (!why.empty()) decisions.explanation.push_back(why);
  return decisions;
}

// Of what the options leave open. Sets the microbatch of `parts` where that is.
Decisions choose(RunParts& parts, const Bench& bench) {
  if (parts.options.recompute.policy != "auto") {
    StepCosts costs = bench.costs(parts);
    Decisions decisions = decisions_within_budget(parts, costs);
    const std::string why = grounds(costs.measured() + costs.cached(), costs.estimated(), 0, bench.session);
    if (!why.empty()) decisions.explanation.push_back(why);
    return decisions;
  }
  if (!parts.options.chooses_micro_batch) return decisions_of(study(parts, bench), bench);
  std::string why;
  const Study best = study_of_best_micro_batch(parts, bench, why);
  Decisions decisions = decisions_of(best, bench);
  if (!why.empty()) {
    decisions.explanation.insert(decisions.explanation.begin(), why);
    decisions.summary = why + "; " + decisions.summary;
  }
  decisions.micro_batch = best.parts.options.batch.micro_batch;
  parts = best.parts;
  return decisions;
}

// The most memory that the process has held is part of what the run needs, where choosing has raised it.
Decisions chosen_decisions(RunParts& parts, MeasuringSession& session) {
  const WatchedMeasuring watched(session);
  const Bytes before = HostMemory().peak_resident();
  KeptCalibration calibration;
  Decisions decisions = choose(parts, {calibration, session});
  const Bytes after = HostMemory().peak_resident();
  if (after > before) decisions.peak = after;
  return decisions;
}

// Each pattern of `key` must name a parameter.
void check_names(const models::Model& model, const std::vector<std::string>& patterns, const char* key) {
  const std::vector<GroupSpec>& groups = model.layout.groups;
  for (const std::string& pattern : patterns) {
    const auto names = [&](const ParameterSpec& parameter) { return models::matches(parameter.name, pattern); };
    const auto has_one = [&](const GroupSpec& group) { return std::ranges::any_of(group.parameters, names); };
    if (std::ranges::any_of(groups, has_one)) continue;
    const std::vector<LayerPart>& parts = model.layout.layers[static_cast<std::size_t>(model.block(1))].parts;
    const std::vector<ParameterSpec>& block =
        groups[parts.empty() ? 0 : static_cast<std::size_t>(parts[0].group)].parameters;
    std::string names_of_some = groups.front().parameters.front().name;
    for (const std::string& name : {block.front().name, block.back().name}) {
      if (names_of_some.find(name) == std::string::npos) names_of_some += ", " + name;
    }
    throw BadInput(
        std::string(key) + ": \"" + pattern + "\" names no parameter; they are called " + names_of_some + " and so on",
        of_key(key));
  }
}

// Each target of the adapters must name a linear layer of the blocks, and none beside them: "dense" would be the
// pooler's, too, for PEFT.
void check_targets(const RunParts& parts) {
  if (parts.options.lora.targets.empty()) return;
  const models::Model& model = parts.model;
  const bool encoder = models::architecture_of(parts.options.model.architecture).encoder;
  const GroupIndex first = model.layout.layers[static_cast<std::size_t>(model.block(model.blocks()))].parts[0].group;
  const std::vector<ParameterSpec>& block = model.layout.groups[static_cast<std::size_t>(first)].parameters;
  for (const std::string& target : parts.options.lora.targets) {
    const std::string end = "." + target + ".lora_A.weight";
    const bool found =
        std::ranges::any_of(block, [&](const ParameterSpec& parameter) { return parameter.name.ends_with(end); });
    if (target != "all-linear" && !found) {
      std::string names;
      for (const ParameterSpec& each : block) {
        if (each.shape.rank() == 2 && !models::is_adapter(each.name)) names += " " + each.name;
      }
      throw BadInput("lora.targets: \"" + target + "\" names no linear layer of the blocks; their matrices are" +
                     names);
    }
    if (model.labels > 0 && encoder && (target == "dense" || target == "all-linear")) {
      throw BadInput("lora.targets: \"" + target +
                     "\" names the head's layers, too, which are trained as a whole; name those of the blocks, such as "
                     "\"attention.output.dense\"");
    }
  }
}

// Rows of padding are behind a sample in time, but nothing else tells them from its own where samples are not packed.
void check_padding(const RunParts& parts, const Options& given) {
  const models::Model& model = parts.model;
  const bool encoder = models::architecture_of(parts.options.model.architecture).encoder;
  if (model.causal || encoder || model.packed || model.head_kind == models::HeadKind::custom) return;
  const bool own = parts.options.data.train_source || parts.options.data.validation_source;
  const SampleKind kind = sample_kind(parts.options);
  if (kind == SampleKind::stream && (!own || is_set(given, "data.samples"))) return;
  throw BadInput("data.samples = \"" + parts.options.data.samples +
                     "\": a layer of model.blocks has attention that is not causal, and would see the padding behind "
                     "short samples; set it to \"packed\", or, where no sample is short, to \"stream\"",
                 of_key("data.samples"));
}

// Of what is possible and hardly meant.
void warn_of(const ResolvedOptions& options) {
  for (const std::string& line : unused_keys(options)) log(LogLevel::warning, line);
  if (options.lora.rank > 0 && options.weights.empty() && options.data.has_training()) {
    log(LogLevel::warning,
        "lora.rank: the model that adapters are trained beside is random, since model.pretrained is not set; no other "
        "program has its weights");
  }
}

}  // namespace

RunPlan plan_run(const Options& options, Devices devices, MeasuringSession* session, eps::Rank rank) {
  const RoleScope planning(MemoryRole::planning);
  constexpr Bytes kPlanning = 48 * kMiB;  // taken by libraries, of which some crash where they get no memory
  check_address_space(kPlanning, 0);
  RunParts parts = make_parts(resolve(options, rank), std::move(devices));
  if (rank.index == 0) warn_of(parts.options);
  recall_kernels(parts.devices, options.device.kernels_from);
  load_programs(parts);
  check_names(parts.model, parts.options.optimizer.train, "optimizer.train");
  check_targets(parts);
  check_padding(parts, options);
  for (const ParameterGroup& group : parts.options.optimizer.group) {
    check_names(parts.model, group.parameters, "optimizer.group");
  }
  if (!parts.options.recompute.leaves_choice()) {
    Decisions decisions = fixed_decisions(parts);
    return RunPlan(std::move(parts), std::move(decisions));
  }
  MeasuringSession own;
  Decisions decisions = chosen_decisions(parts, session != nullptr ? *session : own);
  release_free_memory();
  return RunPlan(std::move(parts), std::move(decisions));
}

}  // namespace l2l::runtime
