#include "runtime/options/model_directory.h"

#include <string>

#include "core/error_place.h"
#include "core/files.h"
#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"
#include "models/hub/adapter.h"

namespace l2l::runtime {
namespace {

constexpr const char* kConfig = "config.json";

// Of a directory that is or has `checkpoint`.
std::string advice(const std::filesystem::path& directory, const std::filesystem::path& checkpoint) {
  if (is_there(checkpoint / kConfig))
    return "holds checkpoints of a run; name one of them, such as " + checkpoint.string();
  if (eps::read_manifest(checkpoint).state.without_frozen) {
    return "holds adapters without their model; l2l-export " + directory.string() +
           " OUT --merge makes a model directory of both";
  }
  return "holds checkpoints of a model without a config.json; --resume goes on with them";
}

}  // namespace

std::filesystem::path config_of_model(const std::filesystem::path& directory) {
  std::filesystem::path config = directory / kConfig;
  if (!is_there(directory)) {
    throw BadInput(directory.string() +
                       ": there is no such directory; a model is named by its directory on this machine, which has its "
                       "config.json, *.safetensors and tokenizer",
                   of_file(directory.string()));
  }
  if (is_there(config) || !is_folder(directory)) return config;
  const auto refuse = [&](const std::string& what) {
    throw BadInput(directory.string() + ": has no config.json of a model, but " + what, of_file(directory.string()));
  };
  if (is_there(directory / models::kAdapterConfig)) {
    refuse("an adapter; name the model that it belongs to, and set lora.adapter = \"" + directory.string() + "\"");
  }
  const std::filesystem::path checkpoints = eps::checkpoints_directory(directory);
  if (eps::has_manifest(checkpoints) || !eps::list_checkpoints(checkpoints).empty()) {
    refuse(advice(directory, eps::find_checkpoint(checkpoints)));
  }
  return config;
}

}  // namespace l2l::runtime
