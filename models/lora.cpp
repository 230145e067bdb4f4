#include <algorithm>
#include <cmath>

#include "models/family.h"

namespace l2l::models {

using compiler::GraphBuilder;
using compiler::ValueId;

bool Lora::adapts(const std::string& module) const {
  return rank > 0 && std::ranges::any_of(targets, [&](const std::string& target) {
           return target == "all-linear" || module == target || module.ends_with("." + target);
         });
}

float Lora::factor() const {
  const float size = static_cast<float>(rank);
  return alpha / (rank_stabilized ? std::sqrt(size) : size);
}

bool is_adapter(const std::string& parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

// A begins as torch.nn.Linear does, and B with zeros, so that the model begins as without adapters.
ValueId adapt(GraphBuilder& graph, LayerWeights& weights, const TransformerShape& shape, ValueId x, ValueId y,
              std::int64_t in, const std::vector<LayerWeights::Piece>& modules) {
  const Lora& lora = shape.lora;
  std::int64_t first = 0;
  for (const LayerWeights::Piece& module : modules) {
    if (lora.adapts(module.name)) {
      const float bound = 1 / std::sqrt(static_cast<float>(in));
      const ValueId a = weights.matrix(module.name + ".lora_A.weight", lora.rank, in, Initial::uniform, bound);
      const ValueId b = weights.matrix(module.name + ".lora_B.weight", module.rows, lora.rank, Initial::zeros, 0);
      const ValueId low = graph.linear_transposed(graph.dropout(x, lora.dropout), a);
      y = graph.add_columns(y, graph.linear_transposed(low, b), first, lora.factor());
    }
    first += module.rows;
  }
  return y;
}

}  // namespace l2l::models
