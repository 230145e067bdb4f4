// What the public API offers for checkpoints of earlier runs.
#include "eps/checkpoint/checkpoint.h"

#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "l2l/trainer.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/pretrained.h"
#include "text/tokenizer.h"

namespace l2l {
namespace {

// Whether the tokenizer there is no longer the one that the checkpoint carries along.
bool is_another_tokenizer(const std::filesystem::path& tokenizer, const std::filesystem::path& carried) {
  try {
    return !is_there(tokenizer) || text::hash_of(tokenizer) != text::hash_of(carried);
  } catch (const BadInput&) {  // none is there any more
    return true;
  }
}

}  // namespace

bool has_checkpoint(const std::filesystem::path& directory) {
  if (!is_there(directory)) return false;
  const std::filesystem::path folder = eps::checkpoints_directory(directory);
  return eps::has_manifest(folder) || !eps::list_checkpoints(folder).empty();
}

Options checkpoint_options(const std::filesystem::path& directory) {
  const std::filesystem::path folder = eps::find_checkpoint(eps::checkpoints_directory(directory));
  Options options =
      parse_options(eps::read_manifest(folder).state.config, (folder / eps::kManifestName).string() + " (config)");
  // A tokenizer that has gone or changed since is carried along in the checkpoint.
  if (options.data.tokenizer != DataOptions().tokenizer && text::has_tokenizer(folder) &&
      is_another_tokenizer(options.data.tokenizer, folder)) {
    options.data.tokenizer = folder.string();
  }
  return options;
}

Options options_to_resume(Options options, const std::filesystem::path& directory) {
  options.device.kernels_from = eps::find_checkpoint(eps::checkpoints_directory(directory));
  const bool pretrained = !options.model.pretrained.empty(), any_compute = options.precision.compute == "auto";
  const bool scaled = options.model.rope_scaling != "none";
  if (!pretrained && !any_compute && !scaled && !runtime::leaves_micro_batch(options)) return options;
  const Options saved = checkpoint_options(directory);
  options = runtime::with_saved_model(std::move(options), saved);
  options = runtime::with_saved_positions(std::move(options), saved);
  if (any_compute) options.precision.compute = saved.precision.compute;
  if (!runtime::leaves_micro_batch(options)) return options;
  validate_options(options);
  const std::optional<std::int64_t> kept = runtime::micro_batch_to_keep(options, saved);
  options.batch.micro_batch = kept.value_or(options.batch.micro_batch);
  return options;
}

void set_aside_checkpoints(const std::filesystem::path& directory, std::int64_t steps) {
  try {
    const std::filesystem::path aside = eps::set_aside(directory, steps);
    if (!aside.empty()) log(LogLevel::info, "checkpoints of an earlier run moved to " + aside.string());
  } catch (const Error& error) {
    throw Error(std::string("checkpoint.directory: cannot move earlier checkpoints aside: ") + error.what());
  }
}

}  // namespace l2l
