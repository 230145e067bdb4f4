// Enqueues the visits of layers on the compute stream: binds a layer's programs to memory. Shared by relay and resident
// execution, so that both run the same kernels on the same operands.
#pragma once

#include <vector>

#include "core/model_layout.h"
#include "runtime/arena_plan.h"
#include "runtime/programs.h"

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
  LayerRunner(device::Device& device, const models::Model& model, const Programs& programs, const ArenaPlan& plan,
              device::BufferView arena, std::uint64_t seed);

  device::Stream& compute() { return *compute_; }
  device::Device& device() { return device_; }
  const models::Model& model() const { return model_; }
  const std::vector<device::BufferView>& tokens() const { return batch_; }  // tokens and targets of u: 2u and 2u + 1
  const std::vector<device::BufferView>& losses() const { return losses_; }
  device::BufferView logits_row() const { return logits_; }

  Bytes gradient_bytes(int layer) const {
    return static_cast<Bytes>(model_.layout.layers[static_cast<std::size_t>(layer)].elements) * size_of(DType::f32);
  }
  // Row `row` of an activation.
  device::BufferView row_of(device::BufferView activation, std::int64_t row) const {
    const Bytes bytes = static_cast<Bytes>(model_.hidden) * size_of(model_.compute);
    return activation.slice(static_cast<Bytes>(row) * bytes, bytes);
  }

  void begin_pass(const Pass& pass) { pass_ = pass; }

  // Layers 0..N; layer 0 reads the tokens and no `input`.
  void forward(int layer, int microbatch, device::BufferView wire, device::BufferView input, device::BufferView output);
  // The head's visit in training: forward straight into backward; adds to `gradients`, writes the microbatch's loss.
  void head(int microbatch, device::BufferView wire, device::BufferView input, device::BufferView input_gradient,
            device::BufferView gradients);
  // Layers N..0: recomputes from `input`, adds to `gradients`. Layer 0 needs no wire and writes no `input_gradient`.
  void backward(int layer, int microbatch, device::BufferView wire, device::BufferView input,
                device::BufferView output_gradient, device::BufferView input_gradient, device::BufferView gradients);
  // Gradients in the dtype that crosses the link.
  void round_gradients(int layer, device::BufferView gradients, device::BufferView drained);
  // Of microbatch `microbatch`, without gradients.
  void loss(int microbatch, device::BufferView wire, device::BufferView input);
  // Of one row of an activation; to logits_row().
  void logits(device::BufferView wire, device::BufferView row);

 private:
  void launch(const device::Executable& program, int layer, int microbatch, device::Bindings& bindings);
  device::Bindings with_batch(int microbatch) const;

  device::Device& device_;
  const models::Model& model_;
  const Programs& programs_;
  const std::uint64_t seed_;
  const device::BufferView scratch_;
  const std::vector<device::BufferView> batch_;
  const std::vector<device::BufferView> losses_;
  const device::BufferView logits_;
  const std::unique_ptr<device::Stream> compute_;
  Pass pass_;
};

}  // namespace l2l::runtime
