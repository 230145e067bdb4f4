#include "runtime/tuning/plan_run.h"

#include "core/host_memory.h"
#include "l2l/errors.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/without_files.h"
#include "runtime/tuning/choice_text.h"
#include "runtime/tuning/recomputation_choice.h"

namespace l2l::runtime {
namespace {

// Of the runs that the options allow, the one with the least memory.
RunPlan least_plan(const Options& options, const Devices& devices) {
  Options least = without_files(options);
  least.recompute = {};
  least.device.memory = 0;
  least.eps.stash_memory = 0;
  if (least.transfer.stash == "auto") least.transfer.stash = "host";
  return RunPlan(least, devices, {}, RunPlan::Limits::unchecked);
}

Arrangement arrangement_of(const Options& options, const Devices& devices) {
  const RunPlan least = least_plan(options, devices);
  RecomputationChoice choice(options, least);
  if (options.recompute.policy == "auto") return choice.automatic();
  return choice.within_budget(compiler::remat::parse_policy(options.recompute.policy));
}

Options with_micro_batch(Options options, std::int64_t micro_batch) {
  options.batch.micro_batch = micro_batch;
  options.batch.micro_batches = options.batch.minibatch / micro_batch;
  return options;
}

// Seconds of the layers of a step with that microbatch; nothing: it is too large for something.
std::optional<double> predicted_step(const Options& options, const Devices& devices) {
  try {
    const RunPlan least = least_plan(options, devices);
    return RecomputationChoice(options, least).predicted();
  } catch (const BadInput&) {  // or OutOfMemory
    return std::nullopt;
  }
}

// The least of those that are equal. Where nothing fits, the smallest, whose plan says by how much. Returns why.
std::string choose_micro_batch(Options& options, const Devices& devices) {
  const std::vector<std::int64_t> candidates = micro_batch_candidates(options.batch.minibatch, options.device.count);
  if (candidates.size() == 1) return "";
  std::optional<double> shortest;
  std::int64_t best = candidates.front();
  std::string all;
  for (const std::int64_t micro_batch : candidates) {
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

RunPlan plan_run(const Options& given, Devices devices) {
  if (!given.recompute.leaves_choice()) return RunPlan(given, std::move(devices));
  Options options = resolved_options(given);
  training_data(options);  // that are not there are told before anything is measured
  validation_data(options);
  Chosen chosen{.arrangement = {}, .micro_batch = leaves_micro_batch(given)};
  if (devices.empty()) devices = open_devices(options, &chosen.device_choice);
  const Bytes before = HostMemory().peak_resident();
  std::string micro_batch;
  if (chosen.micro_batch) micro_batch = choose_micro_batch(options, devices);
  chosen.arrangement = arrangement_of(options, devices);
  std::vector<std::string>& lines = chosen.arrangement.recomputation.explanation;
  if (!micro_batch.empty()) lines.insert(lines.begin(), std::move(micro_batch));
  const Bytes after = HostMemory().peak_resident();
  if (after > before) chosen.peak = after;
  return RunPlan(options, std::move(devices), std::move(chosen));
}

}  // namespace l2l::runtime
