// config.json of a Hugging Face model directory, in every spelling that transformers 4 and 5 write.
//
// What is read: model_type and the keys of its configuration class that change the model's function. A key that is
// missing or null has the default of transformers 5. Other keys (special tokens, caching, training settings of other
// programs) change nothing and are ignored.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "l2l/options.h"

namespace l2l::models {

// Options with every key of the model that the file states. `sequence` is not the file's: it stays as ModelOptions has
// it. Throws BadInput naming the file, the key and the reason where it asks for something that is not built (a mixture
// of experts, an unknown activation, quantized weights, code of its own), where numbers are impossible, or where it is
// not JSON.
ModelOptions read_hub_config(const std::filesystem::path& file);

// The config.json of a model, with `dtype` float32. `original`: the text of the one that the model came from, or empty;
// keys of it that read_hub_config() ignores are kept.
std::string hub_config(const ModelOptions& model, std::string_view original);

}  // namespace l2l::models
