#include "runtime/export_source.h"

#include "core/files.h"
#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "l2l/trainer.h"
#include "models/hub/config.h"

namespace l2l::runtime {

std::filesystem::path export_folder(const std::filesystem::path& source) {
  if (!is_there(source)) throw BadInput(source.string() + ": does not exist");
  for (const char* const name :
       {"config.json", eps::kManifestName, "model.safetensors", "model.safetensors.index.json"}) {
    if (is_folder(source) && std::filesystem::exists(std::filesystem::symlink_status(source / name))) return source;
  }
  return eps::find_checkpoint(source);
}

ModelOptions exported_model(const std::filesystem::path& folder) {
  if (is_there(folder / eps::kManifestName)) return checkpoint_options(folder).model;
  ModelOptions model = models::read_hub_config(folder / "config.json");
  model.sequence = 1;
  return model;
}

void require_room(const std::filesystem::path& folder, Bytes bytes) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.available >= bytes) return;
  throw BadInput(folder.string() + ": " + format_bytes(bytes) + " are needed, " + format_bytes(space.available) +
                 " are free: " + format_bytes(bytes - space.available) + " too few; choose another place or dtype");
}

}  // namespace l2l::runtime
