// The embedding and the head of a model whose table travels in chunks of rows, each a layer of its own (Model).
//
// Embedding, up: every chunk copies the rows of its tokens to Region::carry (the layer input of block 1 in the making);
// the positions, if any, then add themselves in place. Of a reversible model the last layer begins both streams with
// that, and the carry has memory of its own. Down: every chunk sums the rows of its tokens.
//
// Head: the norm writes Region::normed. On the way up every chunk adds its logits to the statistics of each row's
// softmax (Milakov & Gimelshein, 2018) in Region::carry, and the last one makes the loss. On the way down every chunk
// makes its logits again, now with the finished statistics, and adds to the fp32 gradient of the normed input in
// Region::carry; at the end the norm turns that into the gradient of the layer input.
#pragma once

#include "models/model.h"
#include "models/parameter_list.h"
#include "models/streams.h"

namespace l2l::models {

// A table whose row i % sequence is added to row i of the embedding: learned positions, or, of sequence 1, the one type
// that all tokens have.
struct PositionTable {
  std::string name;
  std::int64_t rows;
  int sequence;
  float deviation;  // of its initial values
};

struct VocabularyShape {
  std::int64_t vocabulary, hidden, sequence;
  std::int64_t rows;   // of a microbatch
  std::int64_t chunk;  // rows of the table in every chunk but the last
  float dropout;       // of the embedding
  DType compute;
  bool bias;    // the vocabulary has one: a chunk of the head is [table, bias]
  bool logits;  // of single rows are asked for
  Reversible reversible = Reversible::no;

  BoundaryShape boundary() const { return {rows, hidden, compute, reversible}; }
  int chunks() const { return static_cast<int>((vocabulary + chunk - 1) / chunk); }
  // Rows of the table in chunk `index`.
  std::int64_t tokens(int index) const { return index + 1 < chunks() ? chunk : vocabulary - index * chunk; }
  // Chunk `index` of a group that has `columns` elements for each token.
  LayerPart part(GroupIndex group, int index, std::int64_t columns) const {
    return {group, 0, index * chunk * columns, index + 1 < chunks() ? chunk * columns : 0};
  }
};

// `tokens`: rows of the table in the chunk. `last`: no other layer of the embedding follows.
LayerType embedding_chunk(const VocabularyShape& shape, std::int64_t tokens, bool last);
// Adds its parameters to `list`.
LayerType positions_layer(const VocabularyShape& shape, const std::vector<PositionTable>& positions,
                          ParameterList& list);

// Derives the norm's backward graph, which reads its output's gradient from Region::carry.
// `norm`: input [rows, hidden] -> output; `row`: the same of one row, or empty.
LayerType head_norm(const VocabularyShape& shape, compiler::Graph norm, compiler::Graph row);
LayerType head_chunk(const VocabularyShape& shape, std::int64_t tokens, bool last);

}  // namespace l2l::models
