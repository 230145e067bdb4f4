// What distinguishes one family of models from another, and how a model is assembled from that: the layers and their
// graphs, the table as one layer or in chunks, parameter groups and stable ids.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/parameter_list.h"
#include "models/shape.h"
#include "models/vocabulary_chunks.h"

namespace l2l::models {

// A head that gives a row's logits of classes, or one number: features of the row, then a linear layer.
struct Classifier {
  std::function<compiler::ValueId(compiler::GraphBuilder& graph, LayerWeights& weights, compiler::ValueId x,
                                  const TransformerShape& shape)>
      features;
  std::string weight, bias;  // names of its parameters, [labels, hidden] and [labels]; no bias where that is empty
  std::string group;
};

struct Family {
  // Appends a layer's ops, from x [rows, hidden] to a result of the same shape, and declares its parameters.
  using Part = std::function<compiler::ValueId(compiler::GraphBuilder& graph, LayerWeights& weights,
                                               compiler::ValueId x, const TransformerShape& shape)>;

  std::string table;                     // name of the embedding's table [vocabulary, hidden]
  std::string head_table;                // name of the head's own table; empty: it uses the embedding's
  std::string head_bias;                 // name of the head's bias [vocabulary]; empty: none
  std::vector<PositionTable> positions;  // added to the rows of the table
  float embedding_factor = 1;            // of the table's rows, where there are no positions
  float embedding_dropout = 0;           // of the embedding's sum
  Part embedding_norm;                   // between embedding and blocks, as a block of its own type; empty: none
  // A block is either one part, or a chain of residual branches, x = x + branch(x), which in a reversible model add to
  // the two streams alternately. Where some blocks slide, they are a type of their own: their parts get a shape in
  // which all do (TransformerShape::sliding is {true}), the others one in which none does.
  Part block;
  std::vector<Part> branches;
  Part head;              // what the head does before the table
  Classifier classifier;  // instead of head and table, where the shape has labels
  bool causal = true;     // each token is predicted from those before it, so the model can continue a text
  // Names of groups and layers. Block i is `blocks`.i, which is also the prefix of its parameters' names.
  std::string table_group, positions_group, head_group, blocks;
};

// Throws BadInput when the shapes of a graph do not fit.
Model assemble(const TransformerShape& shape, const Family& family);

// Attention in one op, or in separate ones if shape.core_attention. `attention`: as in GraphBuilder.
compiler::ValueId attend(compiler::GraphBuilder& graph, const TransformerShape& shape, compiler::ValueId qkv,
                         const compiler::Attributes& attention);

// A linear layer's result y with its adapters, if there are any. `modules`: names and columns of y, one behind the
// other. `x` [rows, in]: what the layer reads.
compiler::ValueId adapt(compiler::GraphBuilder& graph, LayerWeights& weights, const TransformerShape& shape,
                        compiler::ValueId x, compiler::ValueId y, std::int64_t in,
                        const std::vector<LayerWeights::Piece>& modules);

// `part`, whose result is dropped out.
Family::Part dropped_out(Family::Part part);

// Standard deviation of initial weights in all families.
inline constexpr float kInitialDeviation = 0.02f;
// The same for projections onto the residual stream of pre-norm blocks (Radford et al., 2019); a block has two of them.
float residual_deviation(const TransformerShape& shape);

// Of attention and rotary ops: what the shape says of heads, window, scale, caps and positions.
compiler::Attributes attention_attributes(const TransformerShape& shape);

}  // namespace l2l::models
