#include "tools/plan_modes.h"

#include <algorithm>

#include "formats/safetensors.h"
#include "l2l/errors.h"
#include "runtime/options/pretrained.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/plan_run.h"

namespace l2l::tools {
namespace {

constexpr std::int64_t kLeastSequence = 128, kStep = 128;

// From what gives up nothing to what needs the fewest bytes per parameter (docs/parameter-server.md).
const std::vector<std::vector<std::string>>& ladder() {
  static const std::vector<std::vector<std::string>> settings = {
      {"precision.compute=bf16"},
      {"precision.compute=bf16", "transfer.stash=host"},
      {"precision.compute=bf16", "transfer.stash=host", "optimizer.moments=bf16_first"},
      {"precision.compute=bf16", "transfer.stash=host", "optimizer.moments=bf16"},
      {"precision.compute=bf16", "transfer.stash=host", "optimizer.moments=int8"}};
  return settings;
}

// Empty when the options fit.
std::string shortfall_of(const Options& options) {
  try {
    const runtime::RunPlan plan = runtime::plan_run(options);
    runtime::check_limits(plan, runtime::memory_contract(plan));
    return {};
  } catch (const OutOfMemory& error) {
    return error.what();
  }
}

Options with_sequence(Options options, std::int64_t sequence) {
  options.model.sequence = sequence;
  options.given.push_back("model.sequence");
  return options;
}

std::int64_t longest(const Options& options) {
  ModelOptions model = runtime::with_pretrained_model(options).model;
  const std::int64_t first = model.architecture == "roberta" ? model.padding_token + 1 : 0;
  return model.positions > 0 ? model.positions - first : model.sequence;
}

// The longest sequence that fits, a multiple of kStep unless it is `most`; 0: none does.
std::int64_t longest_that_fits(const Options& options, std::int64_t most) {
  if (shortfall_of(with_sequence(options, most)).empty()) return most;
  std::int64_t fits = 0, too_long = most;
  while (too_long - fits > kStep) {
    const std::int64_t middle = (fits + too_long) / 2 / kStep * kStep;
    if (middle <= fits) break;
    (shortfall_of(with_sequence(options, middle)).empty() ? fits : too_long) = middle;
  }
  return fits;
}

// Of weights that are there, which they need not be: reads the headers, to which the sizes of the files must fit.
void check_weights(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const bool is_model = entry.path().filename().string().starts_with("model");
    if (!is_model || entry.path().extension() != ".safetensors" || !entry.is_regular_file(ignored)) continue;
    static_cast<void>(formats::SafetensorsFile(entry.path()));
  }
}

}  // namespace

ModelPlan plan_model(const std::filesystem::path& directory, const std::vector<std::string>& assignments) {
  check_weights(directory);
  Options base;
  base.model.pretrained = directory;
  base.data.format = "tokens32";
  base.batch = {.micro_batch = 1, .micro_batches = 1};
  base.recompute.policy = "full";  // takes least, and leaves nothing to be measured
  for (const std::string& assignment : assignments) set_option(base, assignment);
  const bool sequence_is_given = sets(base, "model.sequence");
  ModelPlan plan;
  for (const std::vector<std::string>& setting : ladder()) {
    plan.options = base;
    plan.settings.clear();
    for (const std::string& assignment : setting) {
      if (sets(base, assignment.substr(0, assignment.find('=')))) continue;
      set_option(plan.options, assignment);
      plan.settings.push_back(assignment);
    }
    const std::int64_t most = sequence_is_given ? base.model.sequence : longest(plan.options);
    const std::int64_t least = sequence_is_given ? most : std::min(most, kLeastSequence);
    plan.shortfall = shortfall_of(with_sequence(plan.options, least));
    if (!plan.shortfall.empty()) {
      plan.options = with_sequence(plan.options, least);
      continue;
    }
    plan.fits = true;
    plan.options = with_sequence(plan.options, std::max(least, longest_that_fits(plan.options, most)));
    return plan;
  }
  return plan;
}

}  // namespace l2l::tools
