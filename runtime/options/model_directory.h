// model.pretrained: the directory of a model, and others that are easily taken for one.
#pragma once

#include <filesystem>

namespace l2l::runtime {

// The name of the config.json in the directory of a Hugging Face model. Throws BadInput with the way out where there is
// none, because the directory has an adapter alone, or holds checkpoints.
std::filesystem::path config_of_model(const std::filesystem::path& directory);

}  // namespace l2l::runtime
