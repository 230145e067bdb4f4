// The embedding and the head of a model whose table travels in chunks of rows, each a layer of its own (Model).
//
// Embedding, up: every chunk copies the rows of its tokens to Region::carry (the layer input of block 1 in the making);
// the positions then add themselves in place. Down: every chunk sums the rows of its tokens.
//
// Head: the norm writes Region::normed. On the way up every chunk adds its logits to the statistics of each row's
// softmax (Milakov & Gimelshein, 2018) in Region::carry, and the last one makes the loss. On the way down every chunk
// makes its logits again, now with the finished statistics, and adds to the fp32 gradient of the normed input in
// Region::carry; at the end the norm turns that into the gradient of the layer input.
#pragma once

#include "models/model.h"
#include "models/parameter_list.h"

namespace l2l::models {

struct VocabularyShape {
  std::int64_t vocabulary, hidden, sequence;
  std::int64_t rows;   // of a microbatch
  std::int64_t chunk;  // rows of the table in every chunk but the last
  float dropout;       // of the embedding
  DType compute;

  int chunks() const { return static_cast<int>((vocabulary + chunk - 1) / chunk); }
  // Rows of the table in chunk `index`.
  std::int64_t tokens(int index) const { return index + 1 < chunks() ? chunk : vocabulary - index * chunk; }
};

// `tokens`: rows of the table in the chunk.
LayerType embedding_chunk(const VocabularyShape& shape, std::int64_t tokens);
// Adds its parameter to `list`.
LayerType positions_layer(const VocabularyShape& shape, float deviation, ParameterList& list);

// Derives the norm's backward graph, which reads its output's gradient from Region::carry.
// `norm`: input [rows, hidden] -> output; `row`: the same of one row.
LayerType head_norm(const VocabularyShape& shape, device::graph::Graph norm, device::graph::Graph row);
LayerType head_chunk(const VocabularyShape& shape, std::int64_t tokens, bool last);

}  // namespace l2l::models
