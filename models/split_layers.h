// Layers that are split over devices: tensor and sequence parallelism (Shoeybi et al., "Megatron-LM", 2019; Korthikanti
// et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, Section 4.2). Each device has a model
// of its own, TransformerShape::shard of the whole one:
//
//   rows     what lies between layers, norms, dropout and residual sums; parameters are those of the whole model
//   columns  of a layer's first product, whose input is gathered: heads of attention, columns of an MLP
//   rows of the second product's matrix, whose result is summed and scattered
//   tokens   of the tables of embedding and head
//
// Tensor parallelism alone (Shoeybi et al.; TransformerShape::whole_rows), to compare with: each device has all rows of
// what lies between layers, inputs are not gathered, and sums are not scattered. A sum's gradient is the sum of what
// devices have for their copies of it, so the backward pass sums where the forward pass does.
//
// Where a layer is whole, gathering and summing do nothing.
#pragma once

#include "models/family.h"

namespace l2l::models {

// Throws BadInput where a model of this shape cannot be split so.
void check_split(const TransformerShape& shape);

// Of x, of which the device has what lies between layers, all rows.
compiler::ValueId gather_rows(compiler::GraphBuilder& graph, compiler::ValueId x, const TransformerShape& shape);

// What the device has between layers of the sum of all devices' x, of which each has all rows.
compiler::ValueId sum_rows(compiler::GraphBuilder& graph, compiler::ValueId x, const TransformerShape& shape);

// `y` plus a bias [columns], of which each device has all; where layers are split, sum_rows() of y first. `y` is made
// by `product`, which takes the bias itself where the layer is whole.
template <typename Product>
compiler::ValueId sum_products(compiler::GraphBuilder& graph, const TransformerShape& shape,
                               std::optional<compiler::ValueId> bias, const Product& product) {
  if (!shape.split()) return product(bias);
  const compiler::ValueId y = sum_rows(graph, product(std::nullopt), shape);
  return bias ? graph.add_positions(y, *bias, /*sequence=*/1) : y;
}

// The bias of such a product, as sum_products() takes it.
std::optional<compiler::ValueId> bias_of_sums(LayerWeights& weights, const std::string& name, std::int64_t columns,
                                              const TransformerShape& shape);

// Tokens of a table that a device has: all, or as many as others but for the last one.
struct TokenRange {
  std::int64_t first, count;
};
TokenRange own_tokens(const TransformerShape& shape);

// Of a model that is split: table[token] of the rows that the device has between layers, times `factor`.
compiler::ValueId look_up_rows(compiler::GraphBuilder& graph, compiler::ValueId tokens, compiler::ValueId table,
                               float factor, const TransformerShape& shape);

}  // namespace l2l::models
