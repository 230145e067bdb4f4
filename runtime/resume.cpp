#include "runtime/resume.h"

#include <algorithm>

#include "core/error_place.h"
#include "core/log.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "models/exchange.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/resume_changes.h"

namespace l2l::runtime {
namespace {

// Of a key whose value the plan has chosen.
void check_chosen(const std::string& key, const std::string& ours, const std::string& its) {
  if (ours == its) return;
  throw BadInput(key + " was chosen to be " + ours + ", but the checkpoint was made with " + its +
                     "; another one gives other bits: set it to that, as options_to_resume() does",
                 of_key(key));
}

void check_micro_batch(const Options& options, const Options& saved) {
  if (const std::optional<std::int64_t> its = micro_batch_to_keep(options, saved)) {
    check_chosen("batch.micro_batch", std::to_string(options.batch.micro_batch), std::to_string(*its));
  }
}

void check_compute(const Options& options, const Options& saved) {
  const auto quoted = [](const std::string& type) { return "\"" + type + "\""; };
  check_chosen("precision.compute", quoted(options.precision.compute), quoted(saved.precision.compute));
}

// Other adapters or moments than these cannot be read.
void check_trained(const RunPlan& plan, const Options& saved, const std::filesystem::path& folder) {
  const LoraOptions &ours = plan.options.lora, &its = saved.lora;
  if (ours.rank != its.rank || ours.alpha != its.alpha || ours.targets != its.targets ||
      ours.rank_stabilized != its.rank_stabilized) {
    std::string what = "has adapters of lora.rank = " + std::to_string(its.rank) +
                       ", alpha = " + value_of(saved, "lora.alpha") +
                       "; the keys of [lora] must be what they were when this checkpoint was made";
    if (its.rank == 0) {
      what = "has no adapters, and a run cannot begin to train them: begin a new one with model.pretrained = \"" +
             folder.string() + "\"";
    }
    throw BadInput(folder.string() + ": " + what,
                   of_file(folder.string(), ours.rank != its.rank         ? "lora.rank"
                                            : ours.alpha != its.alpha     ? "lora.alpha"
                                            : ours.targets != its.targets ? "lora.targets"
                                                                          : "lora.rank_stabilized"));
  }
  if (saved.optimizer.train == plan.options.optimizer.train) return;
  throw BadInput(
      folder.string() +
          ": optimizer.train is not what it was when this checkpoint was made, which has moments of what was "
          "trained then alone: set it to that; or begin a new run from these weights with model.pretrained",
      of_file(folder.string(), "optimizer.train"));
}

// Of a checkpoint whose layers were exchanged: the run can go on with its list.
void check_list(const RunPlan& plan, const std::vector<std::uint32_t>& list, const std::filesystem::path& folder) {
  if (list.empty()) return;
  const models::Exchange& exchange = plan.model.exchange;
  if (exchange.most == 0) {
    if (list == exchange.initial) return;
    throw BadInput(folder.string() + ": was made with a list of " + std::to_string(list.size()) +
                       " layers in place of model.blocks: set model.reserve, or list these layers in model.blocks",
                   of_file(folder.string(), "model.blocks"));
  }
  try {
    models::check_list(plan.model, list);
  } catch (const BadInput& error) {
    throw BadInput(folder.string() + ": its list of layers: " + error.what(),
                   of_file(folder.string(), "model.reserve"));
  }
}

// The position in the data, which are others now, is kept. Returns what to tell people.
std::string check_data(const RunPlan& plan, const Options& saved, const std::vector<std::string>& allowed) {
  const std::string reading = changed_reading(plan.options, saved);
  const std::string what = plan.options.data.train_source != nullptr
                               ? "the program's source of samples is not the one that the checkpoint was made with: "
                                 "its identity() or size() has changed"
                           : reading.empty()
                               ? "data.train: its files do not hold what they held when the checkpoint was made"
                               : "the training data are not those that the checkpoint was made with: " + reading;
  const bool may =
      plan.options.data.allow_change || std::find(allowed.begin(), allowed.end(), "data.train") != allowed.end();
  if (may) return what + "; training goes on at the same position in the new ones";
  throw BadInput(what +
                     "; the position in them has no meaning now: restore them, or go on with --allow-change "
                     "data.train (in a program: data.allow_change = true)",
                 of_key("data.train"));
}

}  // namespace

void check_base(const RunPlan& plan, const eps::SavedRun& state, std::uint64_t base_hash) {
  if (!state.without_frozen || state.base_hash == base_hash) return;
  throw BadInput(
      "model.base = \"" + plan.options.model.base.string() +
          "\": its weights are not those that this checkpoint's adapters were trained beside; restore them, or "
          "name the directory where they are now with --set model.base=DIR",
      of_file(plan.options.model.base.string(), "model.base"));
}

void tell_rounded(const RunPlan& plan, const models::HubWeights& weights) {
  std::int64_t count = 0;
  for (const GroupSpec& group : plan.model.layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (!parameter.trained && weights.has_other_type(parameter, plan.store.wire)) ++count;
    }
  }
  if (count == 0) return;
  log(LogLevel::info, std::to_string(count) + " frozen tensors of " + plan.options.weights.string() +
                          " are of another type than precision.compute: they are kept in " +
                          plan.options.precision.compute + ", converted once");
}

void check_seed(const RunPlan& plan, const eps::SavedRun& state) {
  if (state.seed == plan.options.run.seed) return;
  throw BadInput(
      "run.seed is " + std::to_string(plan.options.run.seed) + ", but the checkpoint was made with seed " +
          std::to_string(state.seed) +
          "; its random numbers and order of data follow from that: set run.seed = " + std::to_string(state.seed),
      of_key("run.seed"));
}

std::vector<std::string> check_resumable(const RunPlan& plan, const std::filesystem::path& folder,
                                         std::uint64_t data_hash, const std::vector<std::string>& allowed) {
  const eps::Manifest manifest = eps::read_manifest(folder);
  const eps::SavedRun& state = manifest.state;
  const Options saved = parse_options(state.config, (folder / eps::kManifestName).string() + " (config)");
  const bool trains = plan.options.data.has_training();
  check_seed(plan, state);
  check_trained(plan, saved, folder);
  if (!plan.compute_choice.empty()) check_compute(plan.options, saved);
  check_list(plan, state.list, folder);
  std::vector<std::string> told = check_changes(plan.options, saved, manifest.ranks, folder, trains, allowed);
  if (trains && state.data_hash != data_hash) told.push_back(check_data(plan, saved, allowed));
  if (plan.decisions.micro_batch) check_micro_batch(plan.options, saved);
  return told;
}

void warn_of_lost_steps(const std::filesystem::path& directory, const std::filesystem::path& used, std::uint64_t step) {
  const std::uint64_t newest = eps::newest_step(directory);
  if (newest <= step) return;
  const std::string first = std::to_string(step + 1), last = std::to_string(newest);
  log(LogLevel::warning, "resuming from " + used.string() + ": " +
                             (newest == step + 1 ? "step " + last + " is" : "steps " + first + " to " + last + " are") +
                             " lost and will be repeated");
}

}  // namespace l2l::runtime
