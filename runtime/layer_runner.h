// Launches the programs of layers on the compute stream: binds their operands to device memory.
#pragma once

#include <functional>
#include <vector>

#include "core/dropout.h"
#include "core/model_layout.h"
#include "runtime/plan/arena_plan.h"
#include "runtime/plan/programs.h"
#include "transfer/link.h"

namespace l2l::runtime {

// What is the same for all launches of a pass over the layers.
struct Pass {
  std::uint64_t step = 0;  // version of the weights, and key of the random numbers
  float loss_scale = 1;    // factor of every token's loss: scale against underflow / predicted tokens of the minibatch
  bool training = true;
  DropoutMasks dropout_masks = kNewestDropoutMasks;
};

// What a forward pass hands out: of tokens [first, first + count) of the first microbatch, the logits of each, or its
// hidden state, which the head reads (of models without two streams).
struct Rows {
  std::int64_t first = 0, count = 0;
  bool hidden = false;
};

// A model for sequences of one length, and its programs.
struct ModelPrograms {
  const models::Model* model;
  const Programs* programs;
};

// Thread-bound: the relay thread.
class LayerRunner {
 public:
  // `first_microbatch`: which microbatch of the minibatch is this device's microbatch 0; random numbers and the
  // timeline use its number in the minibatch, everything else counts from 0. `lengths`: for sequences of each length,
  // the longest last. All references must outlive this object.
  LayerRunner(transfer::Link& link, std::vector<ModelPrograms> lengths, const ArenaPlan& plan, device::BufferView arena,
              std::uint64_t seed, int first_microbatch);

  device::Stream& compute() { return *compute_; }
  device::Device& device() { return device_; }
  // That of the longest sequences, for which all memory is planned.
  const models::Model& model() const { return model_; }
  // That of a microbatch's sequences; at first they are the longest ones. `length`: index into the constructor's.
  const models::Model& model_of(int microbatch) const { return *of(microbatch).model; }
  void set_length(int microbatch, int length) { length_of_[static_cast<std::size_t>(microbatch)] = length; }
  int longest() const { return static_cast<int>(lengths_.size()) - 1; }
  // Of each microbatch: Region::tokens and Region::targets.
  const std::vector<device::BufferView>& inputs() const { return inputs_; }
  const std::vector<device::BufferView>& targets() const { return targets_; }
  // Of each microbatch; none where rows are not told apart (Model::packed).
  const std::vector<device::BufferView>& row_fields() const { return row_fields_; }
  const std::vector<device::BufferView>& losses() const { return losses_; }
  // Where a forward pass leaves a microbatch's logits; empty where the head predicts tokens.
  device::BufferView label_logits(int microbatch) const {
    const Bytes bytes = model_of(microbatch).label_logits_bytes();
    return bytes == 0 ? device::BufferView{} : logits_[static_cast<std::size_t>(microbatch)].slice(0, bytes);
  }
  // What the chunks of a head hand on (models/vocabulary_chunks.h); empty where the head is one layer.
  device::BufferView carry(int microbatch) const {
    return carry_.empty() ? device::BufferView{} : carry_[static_cast<std::size_t>(microbatch)];
  }

  // Row `row` of an activation. Where that is two streams, the view ends with the row of the second one.
  device::BufferView row_of(device::BufferView activation, std::int64_t row) const {
    const Bytes bytes = static_cast<Bytes>(model_.hidden) * size_of(model_.stream_dtype());
    return activation.slice(static_cast<Bytes>(row) * bytes, bytes + (model_.streams() ? model_.stream_bytes() : 0));
  }

  void begin_pass(const Pass& pass) { pass_ = pass; }

  // Operands of a program, by compiler::Region; those that the layer's graph does not use may be empty. Tokens,
  // targets, loss and scratch are bound by the runner.
  struct Operands {
    device::BufferView wire{}, input{}, output{}, saved{}, output_gradient{}, input_gradient{}, gradients{}, normed{},
        carry{};
  };
  void forward(int layer, int microbatch, const Operands& operands);
  // Adds to `gradients`. A head that is one layer also computes forward here, and writes the loss. A block that
  // rebuilds its input reads what its forward pass wrote as `input`, and writes what that read to `output`.
  void backward(int layer, int microbatch, const Operands& operands);
  // Logits of one row, by one layer of a head: from its `input` to `take`. A head in chunks begins with a norm, which
  // writes `normed` alone, for one row; the chunks read that.
  using TakeRow = std::function<void(std::int64_t row, std::int64_t first_token, device::BufferView logits)>;
  void predict(int layer, std::int64_t row, device::BufferView wire, device::BufferView input,
               device::BufferView normed, const TakeRow& take);
  // Rounds fp32 gradients to the dtype that crosses the link.
  void round_gradients(int layer, device::BufferView gradients, device::BufferView drained);
  // sums += others, both of a layer that is trained.
  void add_gradients(int layer, device::BufferView sums, device::BufferView others);
  // Of the slices of a layer's rounded gradients that came from all devices, in fp32. On any thread.
  void sum_over_devices(int layer, device::BufferView gradients, device::BufferView sums, device::Stream& stream) const;

 private:
  const ModelPrograms& of(int microbatch) const {
    return lengths_[static_cast<std::size_t>(length_of_[static_cast<std::size_t>(microbatch)])];
  }
  device::BufferView logits_of(int layer) const;
  void launch(const device::Executable& program, Phase phase, int layer, int microbatch, const Operands& operands);
  device::LaunchParameters parameters(int layer, int microbatch) const;

  transfer::Link& link_;
  device::Device& device_;
  const std::vector<ModelPrograms> lengths_;
  const models::Model& model_;  // of the longest
  const Programs& programs_;    // likewise
  std::vector<int> length_of_;  // each microbatch
  const std::uint64_t seed_;
  const int first_microbatch_;
  const ArenaPlan& plan_;
  const device::BufferView arena_;
  const std::vector<device::BufferView> inputs_, targets_;
  const std::vector<device::BufferView> row_fields_;
  const std::vector<device::BufferView> losses_;
  const std::vector<device::BufferView> logits_;  // of one token, of each microbatch's rows, or none: then in carry_
  const std::vector<device::BufferView> carry_;
  const std::unique_ptr<device::Stream> compute_;
  Pass pass_;
};

}  // namespace l2l::runtime
