// The embedding and the head of a model whose table travels in chunks of rows, each a layer of its own (Model).
//
// Embedding, forward: each chunk copies the rows of its tokens to Region::carry, which is the layer input of block 1 in
// the making; then the positions, if any, are added in place. In a reversible model the last of these layers starts
// both streams from the carry, which has memory of its own there. Backward: each chunk sums the gradients of its rows.
//
// Head, forward: the norm writes Region::normed. Each chunk computes its logits and adds them to the statistics of
// every row's softmax (Milakov & Gimelshein, 2018) in Region::carry; the last one computes the loss. Backward: each
// chunk computes its logits again, now with complete statistics, and adds to the fp32 gradient of the normed input in
// Region::carry; at the end the norm turns that into the gradient of its input.
#pragma once

#include "models/model.h"
#include "models/parameter_list.h"
#include "models/streams.h"

namespace l2l::models {

// A table whose row first + i % sequence is added to row i of the embedding: learned positions, or, with sequence 1,
// one vector for all tokens. Where documents share sequences, Region::rows has that number in place of i % sequence.
struct PositionTable {
  std::string name;
  std::int64_t rows;
  int sequence;
  float deviation;         // of its initial values
  std::int64_t first = 0;  // the table's row that is added to row 0
  compiler::RowField field = compiler::RowField::position;
};

struct VocabularyChunks {
  const TransformerShape& shape;  // must outlive this
  std::int64_t rows;              // of the table, in every chunk but the last
  float dropout;                  // of the embedding
  float factor;                   // of the table's rows in the embedding
  bool bias;                      // the head has one per token: its chunks are [table, bias]

  int count() const { return static_cast<int>((shape.vocabulary + rows - 1) / rows); }
  // Rows of the table in chunk `index`.
  std::int64_t tokens(int index) const { return index + 1 < count() ? rows : shape.vocabulary - index * rows; }
  // Chunk `index` of a group that has `columns` elements per token.
  LayerPart part(GroupIndex group, int index, std::int64_t columns) const {
    return {group, 0, index * rows * columns, index + 1 < count() ? rows * columns : 0};
  }
};

// `tokens`: rows of the table in this chunk. `last`: it is the last layer of the embedding.
LayerType embedding_chunk(const VocabularyChunks& chunks, std::int64_t tokens, bool last);
// The layer behind the chunks, which adds positions. Adds its parameters to `list`.
compiler::Graph positions_graph(const VocabularyChunks& chunks, const std::vector<PositionTable>& positions,
                                ParameterList& list);
// `forward`: what positions_graph() returned, with its gradient_ranges.
compiler::Graph positions_backward(const VocabularyChunks& chunks, const std::vector<PositionTable>& positions,
                                   const compiler::Graph& forward);

// The head's norm, from its forward graph `norm`; its backward graph reads the output's gradient from Region::carry.
// `row`: the forward graph for a single row.
LayerType head_norm(const TransformerShape& shape, compiler::Graph norm, compiler::Graph row);
// Which of a head's parameters are trained.
struct HeadTraining {
  bool table, bias;
};
// `last`: this chunk computes the loss. Throws BadInput where the bias is trained and the table is not.
LayerType head_chunk(const VocabularyChunks& chunks, std::int64_t tokens, HeadTraining trained, bool last);

}  // namespace l2l::models
