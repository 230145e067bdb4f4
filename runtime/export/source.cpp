#include "runtime/export/source.h"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "core/files.h"
#include "core/log.h"
#include "core/unfinished.h"
#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/manifest.h"
#include "formats/safetensors_shards.h"
#include "l2l/errors.h"
#include "l2l/trainer.h"
#include "models/architecture.h"
#include "models/hub/config.h"
#include "models/hub/weights.h"
#include "runtime/export/checkpoint_weights.h"

namespace l2l::runtime {

namespace {

// The directory itself, or the checkpoints in it, newest first.
std::vector<std::filesystem::path> folders_of(const std::filesystem::path& source) {
  if (!is_there(source)) throw BadInput(source.string() + ": does not exist");
  for (const char* const name : {"config.json", eps::kManifestName, "model.safetensors", formats::kIndexName}) {
    if (is_folder(source) && std::filesystem::exists(std::filesystem::symlink_status(source / name))) return {source};
  }
  return eps::find_checkpoints(eps::checkpoints_directory(source), /*warn=*/true);
}

// The hidden name under which this process writes an export to `place`.
std::filesystem::path unfinished_export(const std::filesystem::path& place) {
  const std::filesystem::path folder = place.parent_path();
  const std::string prefix = "." + place.filename().string() + std::string(kUnfinished);
  try {
    for (const std::filesystem::path& path : list_folder(folder)) {
      const std::string name = path.filename().string();
      const std::optional<pid_t> process = writer_of(path);
      if (process && name == prefix + std::to_string(*process) && !runs_elsewhere(*process)) remove_folder(path);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, std::string("an interrupted export stays: ") + error.what());
  }
  return folder / (prefix + std::to_string(getpid()));
}

}  // namespace

std::filesystem::path export_folder(const std::filesystem::path& source) { return folders_of(source).front(); }

std::filesystem::path sound_export_folder(const std::filesystem::path& source) {
  const std::vector<std::filesystem::path> folders = folders_of(source);
  for (const std::filesystem::path& folder : folders) {
    try {
      if (eps::has_manifest(folder)) eps::verify_weights(folder);
      return folder;
    } catch (const CorruptFile& error) {
      if (folder == folders.back()) throw eps::none_is_sound(folders, error);
      log(LogLevel::warning, std::string(error.what()) + "; trying an older checkpoint");
    }
  }
  throw Error("unreachable");
}

Options exported_options(const std::filesystem::path& folder) {
  if (eps::has_manifest(folder)) {
    Options saved = checkpoint_options(folder);
    if (models::architecture_of(saved.model.architecture).images) {
      throw BadInput(folder.string() + ": model.architecture = \"" + saved.model.architecture +
                     "\" has no class in transformers; its weights are in model.safetensors there");
    }
    if (saved.model.block_names.empty()) return saved;
    throw BadInput(folder.string() + ": has layers that a program describes (" + saved.model.block_names.front() +
                   ", ...), which no other program could load");
  }
  Options options;
  options.model = models::read_hub_config(folder / "config.json");
  options.model.sequence = 1;
  return options;
}

std::unique_ptr<WeightSource> exported_weights(const std::filesystem::path& folder, const Options& options,
                                               const ModelLayout& layout) {
  if (!options.model.base.empty() && (options.lora.rank > 0 || is_there(options.model.base))) {
    return std::make_unique<CheckpointWeights>(folder, options, layout);
  }
  if (!options.model.base.empty()) {
    log(LogLevel::warning, "model.base = \"" + options.model.base.string() +
                               "\" is not there: frozen parameters are those of the checkpoint, in the type that they "
                               "were kept in");
  }
  return std::make_unique<models::HubWeights>(folder, options.model, layout, /*new_head=*/false);
}

std::filesystem::path export_place(const std::filesystem::path& target, const char* what) {
  std::filesystem::path place = absolute_path(target).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  if (is_there(place)) throw BadInput(target.string() + ": exists already; name a new " + what);
  const std::filesystem::path folder = place.parent_path();
  if (is_folder(folder) && access(folder.c_str(), W_OK) != 0) {
    throw BadInput(target.string() + ": cannot be written: " + std::generic_category().message(errno));
  }
  return place;
}

void make_export(const std::filesystem::path& place, const std::function<void(const std::filesystem::path&)>& write) {
  const std::filesystem::path temporary = unfinished_export(place);
  try {
    write(temporary);
    move_path(temporary, place);
    sync_folder(place.parent_path());
  } catch (...) {
    try {
      remove_folder(temporary);
    } catch (const Error& error) {  // what led here is told
      log(LogLevel::warning, error.what());
    }
    throw;
  }
}

void require_room(const std::filesystem::path& folder, Bytes bytes) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.available >= bytes) return;
  throw BadInput(folder.string() + ": " + format_bytes(bytes) + " are needed, " + format_bytes(space.available) +
                 " are free: " + format_bytes(bytes - space.available) + " too few; choose another place or dtype");
}

}  // namespace l2l::runtime
