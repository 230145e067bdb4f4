// From the options of a model to the model.
#pragma once

#include <string>
#include <vector>

#include "l2l/options.h"
#include "models/model.h"

namespace l2l::models {

// What a model depends on besides its own options.
struct ModelSettings {
  std::int64_t micro_batch = 1;  // sequences per microbatch
  std::int64_t sequence = 0;  // rows of each, at most model.sequence, which 0 stands for; parameters stay as they are
  DType compute = DType::f32;
  std::int64_t vocabulary_chunk = 0;    // as in TransformerShape
  bool keeps_inputs = false;            // likewise
  bool packed = false;                  // likewise
  std::vector<std::string> train = {};  // likewise
  Lora lora = {};                       // likewise
  std::int64_t cache = 0;               // likewise
  compiler::Shard shard = {};           // likewise
  bool whole_rows = false;              // likewise
};

// `model` is valid (check_model()), without `pretrained`. Throws BadInput when the shapes of a graph do not fit.
Model make_model(const ModelOptions& model, const ModelSettings& settings);

}  // namespace l2l::models
