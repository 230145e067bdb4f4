// The weights of a checkpoint whose frozen parameters are in another directory, model.base.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/weight_source.h"
#include "formats/safetensors_shards.h"
#include "l2l/options.h"
#include "models/hub/weights.h"
#include "models/shape.h"

namespace l2l::runtime {

// Of each parameter: the checkpoint's, where it was trained, else the base's, as it is in its files; with adapters,
// what these add is part of it: W + factor B A. Thread-safe after construction.
class CheckpointWeights final : public WeightSource {
 public:
  // `options`: the checkpoint's. `layout`: of the model without adapters, with what is trained. Throws BadInput where
  // the base is not what the checkpoint's run had.
  CheckpointWeights(const std::filesystem::path& folder, const Options& options, const ModelLayout& layout);

  bool read(const ParameterSpec& parameter, std::int64_t first, std::span<float> destination) const override;

 private:
  struct Adapter {
    std::vector<float> a, b;  // [rank, in], [out, rank]
    std::int64_t rank = 0, in = 0, out = 0;
  };

  formats::SafetensorsShards checkpoint_;
  models::HubWeights base_;
  models::Lora lora_;
  bool without_frozen_, transposed_;         // transposed: matrices of linear layers are [in, out]
  std::map<std::string, Adapter> adapters_;  // by the name of the matrix that they add to
};

}  // namespace l2l::runtime
