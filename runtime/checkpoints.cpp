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

// Whether that is a tokenizer whose files have this hash.
bool is_tokenizer(const std::filesystem::path& path, std::uint64_t hash) {
  try {
    return is_there(path) && text::hash_of(path) == hash;
  } catch (const BadInput&) {  // none is there
    return false;
  }
}

// Where the tokenizer is by now that the run had as `named`; `hash`: 0 where the checkpoint does not say.
std::string find_tokenizer(const std::string& named, std::uint64_t hash, const std::filesystem::path& checkpoint) {
  if (named == DataOptions().tokenizer || !text::has_tokenizer(checkpoint)) return named;
  if (!is_there(named)) return checkpoint.string();
  return hash != 0 && is_tokenizer(checkpoint, hash) && !is_tokenizer(named, hash) ? checkpoint.string() : named;
}

}  // namespace

bool has_checkpoint(const std::filesystem::path& directory) {
  if (!is_there(directory)) return false;
  const std::filesystem::path folder = eps::checkpoints_directory(directory);
  return eps::has_manifest(folder) || !eps::list_checkpoints(folder).empty();
}

Options checkpoint_options(const std::filesystem::path& directory) {
  const std::filesystem::path folder = eps::find_checkpoint(eps::checkpoints_directory(directory));
  const eps::SavedRun state = eps::read_manifest(folder).state;
  Options options = parse_options(state.config, (folder / eps::kManifestName).string() + " (config)");
  options.data.tokenizer = find_tokenizer(options.data.tokenizer, state.tokenizer_hash, folder);
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
