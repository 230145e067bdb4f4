// A model: the sequence of its layers, their types (graphs, shared by identical layers) and the layout of their
// parameters. Immutable once built, but for the list of blocks where these are exchanged. Nothing here knows how layers
// are executed.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/dtype.h"
#include "core/model_layout.h"
#include "models/shape.h"

namespace l2l::models {

// What identical layers share. Graphs are for one microbatch; one without ops is never run.
struct LayerType {
  // Of a head with labels: loss and, in Region::output, the logits of all rows.
  compiler::Graph forward;
  // Derived from `forward`. That of a head in one layer computes forward, too. That of a block that rebuilds its input
  // reads its output from Region::input and writes its input to Region::output.
  compiler::Graph backward;
  compiler::Graph logits;  // of a head: logits of a single row; with a cache (TransformerShape::cache) of all rows
};

// A tensor that each row of a microbatch brings, one after the other in Region::tokens or Region::targets: a token or
// its target; of a custom model what its options list, and behind the targets what the sample counts for.
struct SampleTensor {
  std::int64_t words = 1;  // of 32 bits
  std::int64_t below = 0;  // indices lie below it; 0: numbers, or bounds that are the model's
  WordElement element = WordElement::whole;
};

// Calls take(tensor, begin), in bytes, for each tensor of `rows` rows in its region. Returns where the last one ends.
template <typename Take>
Bytes for_each_tensor(const std::vector<SampleTensor>& tensors, std::int64_t rows, const Take& take) {
  Bytes end = 0;
  for (const SampleTensor& tensor : tensors) {
    const Bytes begin = align_up(end, 64);
    take(tensor, begin);
    end = begin + static_cast<Bytes>(rows * tensor.words) * size_of(DType::i32);
  }
  return end;
}

// Blocks that may be exchanged between steps (models/exchange.h): any list of the candidates that fits together.
struct Exchange {
  // `input`, `output`: numbers of the values that it reads and returns, the same for values of the same shapes.
  struct Candidate {
    std::uint32_t id = 0;  // Layer::id
    int type = 0;          // index into Model::types
    LayerSpec layer = {};
    Bytes input_bytes = 0;
    int input = 0, output = 0;
  };
  // The candidate with this id; null: there is none.
  const Candidate* find(std::uint32_t id) const {
    const auto place = place_of.find(id);
    return place == place_of.end() ? nullptr : &candidates[place->second];
  }
  std::vector<Candidate> candidates = {};
  std::map<std::uint32_t, std::size_t> place_of = {};  // among them, by id
  int input = 0, output = 0;                           // of a list, numbered as above
  std::vector<std::string> shapes = {};                // by number, for people
  int first = 0;                                       // layer at which the list begins
  GroupIndex first_group = 0, end_group = 0;           // of the candidates
  int most = 0, most_uses = 1;                         // layers of a list, 0: blocks are fixed; uses of one of them
  std::vector<std::uint32_t> initial = {};             // the list that a run begins with
};

// A table that is larger than a block is cut into chunks of rows, each a layer of its own, so that the largest block
// and not the vocabulary sets the size of a weight slot:
//
//   whole       [table + positions]                    [block] x N  [final norm + table]
//   in chunks   [chunk] x chunks.count, [positions]    [block] x N  [final norm], [chunk] x chunks.count
//
// What a family has between embedding and blocks (BERT's norm) is a block of its own type, the first of the N.
//
// Between the layers of a family's reversible model lie two streams, [2][rows, hidden] of four bytes each. Both begin
// as the embedding, and the head reads their sum. Between layers of a program's own lies what these return.
//
// A custom model is [inputs] [block] x N [last layer and loss]; the first of these has no parameters.
struct Model {
  std::vector<LayerType> types;
  std::vector<int> type_of;  // per layer: index into types
  ModelLayout layout;        // of whole parameters
  // Where layers are split over devices: the layout of the shares that this model's graphs use, layer by layer and
  // group by group those of `layout`. Nothing: the same.
  std::optional<ModelLayout> shares = {};
  compiler::Shard shard = {};  // which shares these are
  struct Chunks {
    int count = 0;          // 0: the table is not cut
    std::int64_t rows = 0;  // of every chunk but the last, which may be smaller
  } chunks;
  std::int64_t rows = 0;  // of an activation: tokens of a microbatch
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t labels = 0;  // classes, where the head tells classes apart instead of tokens
  HeadKind head_kind = HeadKind::language;
  DType compute = DType::f32;
  bool packed = false;  // rows have positions, documents and token types of their own: Region::rows
  bool causal = true;   // each token is predicted from those before it, so the model can continue a text
  float logit_softcap =
      0;  // c: logits l, those of LayerType::logits as well, stand for c tanh(l / c); 0: for themselves
  int embedding_layers = 1, head_layers = 1;
  // Of each layer after the embedding, up to the head: what one microbatch brings, in models of one stream; and the
  // largest of these.
  std::vector<Bytes> input_bytes;
  Bytes largest_input = 0;
  std::vector<SampleTensor> inputs{1}, targets{1};  // of a row
  int lowest_trained = 0;                           // the first layer with trained parameters
  // Where there is one, the model as it is built has the longest list, with blocks of all types.
  Exchange exchange = {};
  Reversible reversible = Reversible::no;  // of a family
  // Blocks from this layer on rebuild their inputs in the backward pass, so that none is kept.
  int first_rebuilt = std::numeric_limits<int>::max();

  const ModelLayout& device_layout() const { return shares ? *shares : layout; }
  int layers() const { return static_cast<int>(type_of.size()); }
  int blocks() const { return layers() - embedding_layers - head_layers; }  // N
  // The layer that is block 1 to N; 0 gives the embedding's last layer, N + 1 the head's first.
  int block(int number) const { return embedding_layers - 1 + number; }
  int head() const { return block(blocks() + 1); }
  bool is_block(int layer) const { return layer > block(0) && layer < head(); }
  // The token that the first row of the layer's chunk stands for; 0 in other layers.
  std::int64_t first_token(int layer) const {
    const int chunk = layer > head() ? layer - head() - 1 : layer;
    return chunk < chunks.count ? chunk * chunks.rows : 0;
  }
  const LayerType& type(int layer) const {
    return types[static_cast<std::size_t>(type_of[static_cast<std::size_t>(layer)])];
  }
  // Region::rows of one microbatch; 0 where it is not used.
  Bytes row_fields_bytes() const {
    return packed ? static_cast<Bytes>(compiler::RowField::count) * static_cast<Bytes>(rows) * size_of(DType::i32) : 0;
  }
  // What one microbatch needs in Region::carry; 0 where the table is not cut.
  Bytes carry_bytes() const {
    if (!head_in_chunks()) return 0;
    // One microbatch's logits of a chunk also pass through it.
    Bytes bytes = static_cast<Bytes>(logits_tokens()) * size_of(compute);
    for (int layer = head(); layer < layers(); ++layer) {
      for (const compiler::Graph* const graph : {&type(layer).forward, &type(layer).backward}) {
        bytes = std::max(bytes, graph->region_bytes(compiler::Region::carry));
      }
    }
    return bytes;
  }
  // Most tokens whose logits one layer computes.
  std::int64_t logits_tokens() const { return head_in_chunks() ? chunks.rows : outputs(); }
  // Logits of a row: tokens, or classes.
  std::int64_t outputs() const { return labels > 0 ? labels : vocabulary; }
  // Logits of one microbatch that a forward pass hands out; 0 where the head predicts tokens.
  Bytes label_logits_bytes() const {
    return head_kind == HeadKind::language ? 0 : static_cast<Bytes>(rows * labels) * size_of(compute);
  }
  bool head_in_chunks() const { return head_layers > 1; }
  bool streams() const { return reversible != Reversible::no; }
  bool rebuilds() const { return first_rebuilt < std::numeric_limits<int>::max(); }
  bool rebuilds(int layer) const { return is_block(layer) && layer >= first_rebuilt; }
  bool keeps_no_input() const { return first_rebuilt <= block(1); }
  // Blocks in front of those that rebuild theirs.
  int kept_inputs() const { return std::max(0, std::min(first_rebuilt, head()) - block(1)); }
  // What one microbatch leaves between two layers, and its gradient.
  Bytes activation_bytes() const { return streams() ? 2 * stream_bytes() : largest_input; }
  // Of the input of `layer`, a block or the head; the largest is that above.
  Bytes activation_bytes(int layer) const {
    return streams() ? activation_bytes() : input_bytes[static_cast<std::size_t>(layer - block(1))];
  }
  Bytes input_gradient_bytes() const {
    return streams() ? 2 * static_cast<Bytes>(rows * hidden) * size_of(compute) : activation_bytes();
  }
  // Of one microbatch.
  Bytes tokens_bytes() const { return sample_bytes(inputs); }
  Bytes targets_bytes() const { return sample_bytes(targets); }
  Bytes stream_bytes() const { return static_cast<Bytes>(rows * hidden) * size_of(stream_dtype()); }
  DType stream_dtype() const { return models::stream_dtype(reversible, compute); }
  // The embedding's chunks gather rows in memory of their own, since the layer's output has another shape.
  bool embedding_carries() const {
    return streams() && types.front().forward.region_bytes(compiler::Region::carry) > 0;
  }
  // What a training step returns for one microbatch, in f64: its loss; where rebuilt streams drift, then also two sums
  // of squares, of the difference of the two streams when they are rebuilt down to the embedding, and of the first one.
  Bytes results_bytes() const { return (drifts() ? 3 : 1) * size_of(DType::f64); }
  bool drifts() const { return rebuilds() && reversible == Reversible::floating && trained(block(0)); }
  // What one microbatch saves, beside the input of `layer`, for the layer's backward pass.
  Bytes saved_bytes(int layer) const { return type(layer).forward.region_bytes(compiler::Region::saved); }
  // What a device has of a layer's parameters in `dtype`, padding included.
  Bytes layer_bytes(int layer, DType dtype) const {
    return static_cast<Bytes>(device_layout().layers[static_cast<std::size_t>(layer)].elements) * size_of(dtype);
  }
  Bytes wire_bytes(int layer) const { return layer_bytes(layer, compute); }
  // Of the gradients of a layer's trained parameters what a device has, in `dtype`, padding included.
  Bytes gradient_bytes(int layer, DType dtype) const {
    return static_cast<Bytes>(device_layout().gradient_elements(layer)) * size_of(dtype);
  }
  bool trained(int layer) const { return layout.gradient_elements(layer) > 0; }
  // Whether a backward pass visits the layer: those below the lowest one that is trained have nothing to do there, nor
  // has a layer of the embedding that is frozen.
  bool visited_again(int layer) const {
    return layer >= head() || (layer >= lowest_trained && (layer > block(0) || trained(layer)));
  }
  // Whether the same parameters are trained in all blocks.
  bool blocks_train_alike() const {
    for (int number = 2; number <= blocks(); ++number) {
      if (type(block(number)).forward.gradient_ranges != type(block(1)).forward.gradient_ranges) return false;
    }
    return true;
  }
  // Sets lowest_trained.
  void find_lowest_trained() {
    lowest_trained = 0;
    while (lowest_trained < layers() && !trained(lowest_trained)) ++lowest_trained;
  }
  // The lowest layer that a backward pass visits.
  int lowest_visited() const { return std::min(lowest_trained, head()); }

 private:
  Bytes sample_bytes(const std::vector<SampleTensor>& tensors) const {
    return for_each_tensor(tensors, rows, [](const SampleTensor&, Bytes) {});
  }
};

}  // namespace l2l::models
