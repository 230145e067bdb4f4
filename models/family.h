// What a family of models says of itself, and how a model is put together from it: the embedding, the blocks and the
// head as layers, the table at once or in chunks, groups and stable ids.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/parameter_list.h"
#include "models/shape.h"
#include "models/vocabulary_chunks.h"

namespace l2l::models {

struct Family {
  // Appends the ops of one layer from x [rows, hidden] to a result of the same shape, and declares its parameters.
  using Part = std::function<compiler::ValueId(compiler::GraphBuilder& graph, LayerWeights& weights,
                                                    compiler::ValueId x)>;

  std::string table;                     // name of the embedding's table [vocabulary, hidden]
  std::string head_table;                // of the head's own; empty: the embedding's
  std::string head_bias;                 // of the bias of the vocabulary; empty: none
  std::vector<PositionTable> positions;  // added to the rows of the table
  float embedding_dropout = 0;           // of the embedding's sum
  Part embedding_norm;                   // between embedding and blocks, a block of its own type; empty: none
  // A block is either one part, or a chain of residual branches: x + first(x), ..., which a reversible model adds to
  // its two streams by turns.
  Part block;
  std::vector<Part> branches;
  Part head;           // what the head does before the table
  bool causal = true;  // a token is predicted from those before it, so that the model can continue a text
  // Names of groups and layers; block i is `blocks`.i, which its parameters have in front.
  std::string table_group, positions_group, head_group, blocks;
};

// Throws BadInput when a graph's shapes do not fit.
Model assemble(const TransformerShape& shape, const Family& family);

// What every family does between its product of queries, keys and values and its projection: attention in one op, or in
// separate ones, as `shape` says. `attention` as in GraphBuilder.
compiler::ValueId attend(compiler::GraphBuilder& graph, const TransformerShape& shape,
                              compiler::ValueId qkv, const compiler::Attributes& attention);

// Deviation of initial weights in all families.
inline constexpr float kInitialDeviation = 0.02f;
// Of projections onto the residual stream of pre-norm blocks (Radford et al., 2019): N blocks, two each.
float residual_deviation(const TransformerShape& shape);

}  // namespace l2l::models
