// Enqueues the visits of layers on the compute stream: binds a layer's programs to memory. Shared by relay and resident
// execution, so that both run the same kernels on the same operands.
#pragma once

#include <functional>
#include <vector>

#include "core/model_layout.h"
#include "runtime/plan/arena_plan.h"
#include "runtime/plan/programs.h"
#include "transfer/link.h"

namespace l2l::runtime {

// What a pass over the layers is about.
struct Pass {
  std::uint64_t step = 0;  // key of the random numbers
  float loss_scale = 1;    // 1 / predicted tokens of the minibatch
  bool training = true;
};

// Thread-bound: the relay thread.
class LayerRunner {
 public:
  // `first_microbatch`: place of this device's microbatch 0 in the whole minibatch; random numbers and the timeline
  // count from there, everything else from 0. `plan` outlives it.
  LayerRunner(transfer::Link& link, const models::Model& model, const Programs& programs, const ArenaPlan& plan,
              device::BufferView arena, std::uint64_t seed, int first_microbatch);

  device::Stream& compute() { return *compute_; }
  device::Device& device() { return device_; }
  const models::Model& model() const { return model_; }
  const std::vector<device::BufferView>& tokens() const { return batch_; }  // tokens and targets of u: 2u and 2u + 1
  const std::vector<device::BufferView>& losses() const { return losses_; }
  // Of a head in chunks; else nothing.
  device::BufferView carry(int microbatch) const {
    return carry_.empty() ? device::BufferView{} : carry_[static_cast<std::size_t>(microbatch)];
  }

  Bytes gradient_bytes(int layer) const {
    return static_cast<Bytes>(model_.layout.layers[static_cast<std::size_t>(layer)].elements) * size_of(DType::f32);
  }
  // Row `row` of an activation; of streams, the other one's row is where it would be behind all rows of the first.
  device::BufferView row_of(device::BufferView activation, std::int64_t row) const {
    const Bytes bytes = static_cast<Bytes>(model_.hidden) * size_of(model_.stream_dtype());
    return activation.slice(static_cast<Bytes>(row) * bytes, bytes + (model_.streams() ? model_.stream_bytes() : 0));
  }

  void begin_pass(const Pass& pass) { pass_ = pass; }

  // What a visit reads and writes, beside tokens, targets and loss of its microbatch and the scratch; the regions of
  // its graph say which (models/).
  struct Operands {
    device::BufferView wire{}, input{}, output{}, saved{}, output_gradient{}, input_gradient{}, gradients{}, normed{},
        carry{};
  };
  void forward(int layer, int microbatch, const Operands& operands);
  // Adds to `gradients`. Of a head at once: forward straight into backward, and writes the loss. Of a block that
  // rebuilds its input: `input` is what its forward visit put out, `output` gets what it read.
  void backward(int layer, int microbatch, const Operands& operands);
  // One row of what a head does: of its norm from `input` to `normed`, of its table to `take`.
  using TakeLogits = std::function<void(std::int64_t first_token, device::BufferView logits)>;
  void predict(int layer, device::BufferView wire, device::BufferView input, device::BufferView normed,
               const TakeLogits& take);
  // Gradients in the dtype that crosses the link.
  void round_gradients(int layer, device::BufferView gradients, device::BufferView drained);

 private:
  device::BufferView logits_of(int layer) const;
  void launch(const device::Executable& program, Phase phase, int layer, int microbatch, const Operands& operands);
  device::LaunchParameters parameters(int layer, int microbatch) const;

  device::Device& device_;
  const models::Model& model_;
  const Programs& programs_;
  const std::uint64_t seed_;
  const int first_microbatch_;
  const ArenaPlan& plan_;
  const device::BufferView arena_;
  const std::vector<device::BufferView> batch_;
  const std::vector<device::BufferView> losses_;
  const std::vector<device::BufferView> logits_;  // one, or none where carry_ has room for them
  const std::vector<device::BufferView> carry_;
  const std::unique_ptr<device::Stream> compute_;
  Pass pass_;
};

}  // namespace l2l::runtime
