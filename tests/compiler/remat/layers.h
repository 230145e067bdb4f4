// Small layer types for the tests of recomputation.
#pragma once

#include <string>
#include <vector>

#include "models/families.h"

namespace l2l::compiler::remat {

struct NamedLayer {
  std::string name;
  compiler::Graph forward;
};

inline models::TransformerShape small_shape(DType compute, float dropout) {
  return {.layers = 2,
          .hidden = 32,
          .heads = 4,
          .intermediate = 128,
          .vocabulary = 64,
          .sequence = 16,
          .micro_batch = 2,
          .dropout = dropout,
          .compute = compute};
}

inline compiler::Graph block_of(const models::Model& model, int number) {
  return model.type(model.block(number)).forward;
}

inline std::vector<NamedLayer> layer_types(DType compute) {
  models::TransformerShape shape = small_shape(compute, 0.1f), grouped = small_shape(compute, 0);
  grouped.kv_heads = 2;
  const models::Model bert = models::make_bert(shape);
  models::TransformerShape core = shape;
  core.core_attention = true;
  return {{"gpt2", block_of(models::make_gpt2(shape), 1)},
          {"gpt2 without dropout", block_of(models::make_gpt2(small_shape(compute, 0)), 1)},
          {"bert's norm", block_of(bert, 1)},
          {"bert", block_of(bert, 2)},
          {"llama, grouped heads", block_of(models::make_llama(grouped), 1)},
          {"gpt2, core attention", block_of(models::make_gpt2(core), 1)}};
}

}  // namespace l2l::compiler::remat
