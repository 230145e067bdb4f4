// What one layer does for one microbatch in the forward and in the backward pass: where its operands lie, and when they
// may be overwritten. The executors decide in which order layers and microbatches come, and where weights come from.
//
// The layers are those of models::Model: the embedding (one layer, or chunks of its table and the positions), blocks 1
// to N, and the head (one layer, or a norm and chunks of the table). A head that is one layer computes its loss in the
// backward pass, so that logits are never kept. One in chunks needs a forward pass for the softmax of every row.
#pragma once

#include <vector>

#include "runtime/executor.h"
#include "runtime/gradient_rotation.h"

namespace l2l::runtime {

// Thread-bound: the relay thread. All calls enqueue.
class LayerVisits {
 public:
  explicit LayerVisits(const ExecutorResources& resources);

  // Opens a pass. `keep`: a backward pass follows.
  void begin_forward(bool keep);
  // Layers in ascending order, and each layer's microbatches. `wire`: the layer's weights.
  void forward(int layer, int microbatch, device::BufferView wire);
  // Call when the last block's forward pass is enqueued; lets stashed values come back.
  void begin_backward();
  // Layers in descending order. Adds to `gradients`. The embedding needs no weights.
  void backward(int layer, int microbatch, device::BufferView wire, device::BufferView gradients);
  // Ends a pass that has no backward pass: the head's input may be overwritten.
  void end_forward(int microbatch);

  // What a head's layer adds to these rows. Call for each layer of the head.
  void predict(int layer, const Rows& rows, device::BufferView wire, const LayerRunner::TakeRow& take);

  void zero(device::BufferView gradients);
  // sums += others.
  void add_gradients(int layer, device::BufferView sums, device::BufferView others);
  // Sends the gradients of all microbatches to the parameter server; nothing, of a frozen layer.
  void send_gradients(int layer, device::BufferView gradients);

 private:
  void embedding_forward(int layer, int microbatch, device::BufferView wire);
  void block_forward(int block, int microbatch, device::BufferView wire);
  void head_forward(int microbatch, device::BufferView wire);
  void embedding_backward(int layer, int microbatch, device::BufferView gradients);
  void block_backward(int block, int microbatch, device::BufferView wire, device::BufferView gradients);
  void reversible_backward(int block, int microbatch, device::BufferView wire, device::BufferView gradients);
  void head_backward(int microbatch, device::BufferView wire, device::BufferView gradients);

  void made(transfer::StashItem item, int microbatch);
  // What a backward visit needs of `bytes` that the layer leaves to it: nothing, where there is no such visit, and
  // where it follows at once.
  Bytes needed(int layer, Bytes bytes) const { return layer < head_ && model_.visited_again(layer) ? bytes : 0; }

  // Whether a backward visit of a layer below reads, or drops, the input that `block` has rebuilt.
  bool is_taken_below(int block) const {
    return block > first_block_ ? model_.visited_again(block - 1) : lowest_embedding_ < first_block_;
  }

  // The place of a microbatch among those that are alive at once.
  int live(int microbatch) const { return microbatch % live_; }
  // The input of `layer`, which is the output of the layer before it.
  transfer::StashItem input_of(int layer, int microbatch) const { return {layer, live(microbatch)}; }
  // The head in chunks: the norm's output. Lies where the backward pass does not write yet.
  device::BufferView normed(int microbatch) const { return input_gradients_.incoming(live(microbatch)); }

  LayerRunner& runner_;
  transfer::Stash& stash_;
  transfer::Stash& saved_;
  transfer::GradientDrain& gradients_;
  const models::Model& model_;
  device::Stream& compute_;
  const int first_block_, head_;  // layers
  int lowest_embedding_ = 0;      // of those below the blocks the lowest that is visited again; first_block_: none is
  const bool head_in_chunks_;
  const int live_;  // microbatches alive at once
  GradientRotation input_gradients_;
  std::vector<transfer::StashItem> backward_order_;  // of what the stash holds
};

}  // namespace l2l::runtime
