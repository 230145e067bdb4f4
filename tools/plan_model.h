// l2l-plan DIR: what training a Hugging Face model takes on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "l2l/options.h"

namespace l2l::tools {

// The first setting that fits with the longest sequence that fits with it.
struct ModelPlan {
  bool fits = false;
  std::vector<std::string> settings;  // of the options below, beside model.pretrained and model.sequence
  Options options;                    // where nothing fits: the smallest
  std::string shortfall;              // why the smallest does not fit
};

// `assignments`: what is set in any case. Weights are not read. Throws BadInput.
ModelPlan plan_model(const std::filesystem::path& directory, const std::vector<std::string>& assignments);

}  // namespace l2l::tools
