#include <cmath>

#include "formats/safetensors_header.h"
#include "formats/safetensors_shards.h"
#include "l2l/errors.h"
#include "l2l/model_files.h"

namespace l2l {
namespace {

using formats::SafetensorsShards;
using formats::ShardedTensor;

std::vector<float> read_tensor(const SafetensorsShards& files, const std::string& name, const Shape& shape) {
  for (const char* const prefix : {"", "bert.", "roberta."}) {
    const ShardedTensor tensor = files.find(prefix + name);
    if (tensor.entry == nullptr) continue;
    if (tensor.entry->shape != shape || !formats::is_float(*tensor.entry)) {
      throw BadInput(files.directory().string() + ": " + formats::show_name(tensor.entry->name) + " is " +
                     tensor.entry->dtype + " " + tensor.entry->shape.to_string() + "; expected is F32, BF16 or F16 " +
                     shape.to_string());
    }
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    formats::read_floats(tensor, 0, values);
    return values;
  }
  throw BadInput(files.directory().string() + ": has no pooler: there is no tensor " + name);
}

}  // namespace

std::vector<float> pooler_output(const std::filesystem::path& directory, std::span<const float> first) {
  const SafetensorsShards files(directory);
  const auto hidden = static_cast<std::int64_t>(first.size());
  const std::vector<float> weight = read_tensor(files, "pooler.dense.weight", Shape{hidden, hidden});
  std::vector<float> output = read_tensor(files, "pooler.dense.bias", Shape{hidden});
  for (std::size_t i = 0; i < output.size(); ++i) {
    double sum = output[i];
    for (std::size_t j = 0; j < first.size(); ++j) sum += double{weight[i * first.size() + j]} * first[j];
    output[i] = static_cast<float>(std::tanh(sum));
  }
  return output;
}

}  // namespace l2l
