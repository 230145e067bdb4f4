// A model as the relay sees it: layer types (graphs that identical layers share), the sequence of layers, and the
// layout of their parameters. Immutable once built. Nothing here knows how a layer is executed.
#pragma once

#include <vector>

#include "core/dtype.h"
#include "core/model_layout.h"
#include "compiler/ir/graph.h"
#include "models/shape.h"

namespace l2l::models {

// What identical layers share. A new layer type needs only its forward graph. A graph without ops: no such visit.
struct LayerType {
  compiler::Graph forward;   // of one microbatch
  compiler::Graph backward;  // derived; of a head at once: forward straight into backward; of a block that is
                                  // rebuilt: from its output in Region::input to its input in Region::output
  compiler::Graph logits;    // of a causal model's head: the same of a single row, for generation
};

// A table that is larger than a block is cut into chunks of rows, each a layer of its own, so that the largest block
// and not the vocabulary sets the size of a weight slot:
//
//   at once     [table + positions]                    [block] x N  [final norm + table]
//   in chunks   [chunk] x chunks.count, [positions]    [block] x N  [final norm], [chunk] x chunks.count
//
// What a family has between embedding and blocks (BERT's norm) is a block of its own type, the first of the N.
//
// Between the layers of a reversible model run two streams, [2][rows, hidden] of four bytes each. The embedding begins
// both alike, and the head reads their sum.
struct Model {
  std::vector<LayerType> types;
  std::vector<int> type_of;  // per layer: index into types
  ModelLayout layout;
  struct Chunks {
    int count = 0;          // 0: the table travels at once
    std::int64_t rows = 0;  // of every chunk but the last, which may be smaller
  } chunks;
  std::int64_t rows = 0;  // of an activation: sequences x tokens of one microbatch
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  DType compute = DType::f32;
  bool causal = true;  // a token is predicted from those before it: the model can continue a text
  int embedding_layers = 1, head_layers = 1;
  Reversible reversible = Reversible::no;
  bool rebuilds = false;  // the backward visit of a block rebuilds its input: none is kept

  int layers() const { return static_cast<int>(type_of.size()); }
  int blocks() const { return layers() - embedding_layers - head_layers; }  // N
  // Block 1 to N; 0 is the embedding's last layer, N + 1 the head's first.
  int block(int number) const { return embedding_layers - 1 + number; }
  int head() const { return block(blocks() + 1); }
  bool is_block(int layer) const { return layer > block(0) && layer < head(); }
  // The token of the first row of the table in `layer`: of a chunk, else 0.
  std::int64_t first_token(int layer) const {
    const int chunk = layer > head() ? layer - head() - 1 : layer;
    return chunk < chunks.count ? chunk * chunks.rows : 0;
  }
  const LayerType& type(int layer) const {
    return types[static_cast<std::size_t>(type_of[static_cast<std::size_t>(layer)])];
  }
  // Of one microbatch: what the head's chunks hand on beside their normed input.
  Bytes carry_bytes() const;
  // Tokens whose logits one visit makes.
  std::int64_t logits_tokens() const { return chunks.count > 0 ? chunks.rows : vocabulary; }
  bool streams() const { return reversible != Reversible::no; }
  // What lies between two layers, of one microbatch, and its gradient.
  Bytes activation_bytes() const { return stream_bytes() * (streams() ? 2 : 1); }
  Bytes input_gradient_bytes() const {
    return static_cast<Bytes>(rows * hidden) * size_of(compute) * (streams() ? 2 : 1);
  }
  Bytes stream_bytes() const { return static_cast<Bytes>(rows * hidden) * size_of(stream_dtype()); }
  DType stream_dtype() const;
  // The embedding's chunks make their rows in memory of its own: what they become is of another shape.
  bool embedding_carries() const {
    return streams() && types.front().forward.region_bytes(compiler::Region::carry) > 0;
  }
  // What a step brings of one microbatch: its loss; where the rebuilt streams drift, also the sum of squares of what
  // they are apart when the embedding gets them back, and of one of them.
  Bytes results_bytes() const { return (drifts() ? 3 : 1) * size_of(DType::f64); }
  bool drifts() const { return rebuilds && reversible == Reversible::floating; }
  // What a microbatch leaves from the forward to the backward visit of `layer` beside its input.
  Bytes saved_bytes(int layer) const { return type(layer).forward.region_bytes(compiler::Region::saved); }
  // Its parameters in `dtype`.
  Bytes layer_bytes(int layer, DType dtype) const {
    return static_cast<Bytes>(layout.layers[static_cast<std::size_t>(layer)].elements) * size_of(dtype);
  }
  Bytes wire_bytes(int layer) const { return layer_bytes(layer, compute); }
};

}  // namespace l2l::models
