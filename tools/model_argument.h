// A model named on the command line: a checkpoint, a directory of checkpoints, or a Hugging Face model directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "l2l/trainer.h"

namespace l2l::tools {

struct ModelArgument {
  std::filesystem::path path;
  bool is_checkpoint = false;
};

// Options to run the model without training it: no data, one sequence at a time. Throws BadInput.
Options options_of_model(const std::filesystem::path& path, ModelArgument& model);

// What --set assigns ("section.key=value"). With a tokenizer, data are text unless their format is set. Throws
// BadInput.
void assign(const std::vector<std::string>& assignments, Options& options);

// Loads its weights, with a progress line. Returns the directory that they are in.
std::filesystem::path load_weights(Trainer& trainer, const ModelArgument& model);

}  // namespace l2l::tools
