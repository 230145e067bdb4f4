#include "tools/model_argument.h"

#include "core/files.h"
#include "runtime/options/model_directory.h"
#include "text/tokenizer.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace l2l::tools {

Options options_of_model(const std::filesystem::path& path, ModelArgument& model) {
  // A checkpoint has a config.json, too, but also its own options.
  const bool checkpoint = has_checkpoint(path), plain = is_there(path / "config.json") && !checkpoint;
  if (!plain && !checkpoint) static_cast<void>(runtime::config_of_model(path));  // which says what it is instead
  model = {path, !plain};
  Options options;
  if (plain) {
    options.model.pretrained = path;
    if (text::has_tokenizer(path)) {
      options.data.tokenizer = path.string();
    } else {
      options.data.format = "tokens";
    }
  } else {
    options = checkpoint_options(path);
  }
  options.data.train.clear();
  options.data.source.clear();
  options.data.validation.clear();
  // A batch norm cannot be built for a microbatch of one pixel.
  options.batch = {.micro_batch = options.model.head == "custom" ? 8 : 1, .micro_batches = 1};
  options.distributed.kind = "single";  // however many have trained it
  options.distributed.nodes = 0;
  options.device.count = options.device.tensor = 1;
  if (plain) options.precision.compute = "fp32";  // the same figures on each machine
  options.checkpoint.directory.clear();
  options.recompute = {.policy = "full"};  // nothing is trained, so there is nothing to choose
  options.checkpoint.every = options.run.validate_every = options.run.patience = 0;
  options.checkpoint.best.clear();
  return options;
}

void assign(const std::vector<std::string>& assignments, Options& options) {
  for (const std::string& assignment : assignments) set_option(options, assignment);
  if (sets(options, "data.tokenizer") && !sets(options, "data.format")) options.data.format = "auto";
}

std::filesystem::path load_weights(Trainer& trainer, const ModelArgument& model) {
  if (model.is_checkpoint) return trainer.resume(model.path);
  ByteProgress progress("loading", /*quiet=*/false);
  trainer.prepare([&](std::uint64_t done, std::uint64_t all) { progress.show(done, all); });
  return model.path;
}

}  // namespace l2l::tools
