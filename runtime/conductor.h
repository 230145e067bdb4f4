// One way of running a minibatch through the layers: the relay (layer-major) or resident (conventional). Both give the
// same bits (law 2).
#pragma once

#include <memory>

#include "runtime/layer_runner.h"
#include "transfer/gradient_drain.h"
#include "transfer/stash.h"
#include "transfer/weight_stream.h"

namespace l2l::runtime {

// The parts that a conductor leads; they outlive it.
struct Orchestra {
  LayerRunner& runner;
  transfer::WeightStream& weights;
  transfer::Stash& stash;  // layer inputs
  transfer::Stash& saved;  // what blocks save for their backward visit beside them
  transfer::GradientDrain& gradients;
  std::vector<device::BufferView> accumulators;     // relay: one; resident: one per layer
  std::vector<device::BufferView> input_gradients;  // live microbatches + 1
  int microbatches = 1;
};

// Thread-bound: the relay thread. Calls enqueue work and wait only for data; what they enqueue is done when the compute
// stream is.
class Conductor {
 public:
  virtual ~Conductor() = default;
  // Forward and backward of all microbatches with weights of `version`. Losses go to the runner's losses(), gradients
  // to the parameter server.
  virtual void train(eps::Version version) = 0;
  // Losses alone.
  virtual void evaluate(eps::Version version) = 0;
  // Logits that follow token `row` of the first microbatch. `take` is called for each piece of the vocabulary, when its
  // logits are enqueued, and enqueues what it does with them on the compute stream.
  using TakeLogits = LayerRunner::TakeLogits;
  virtual void predict(eps::Version version, std::int64_t row, const TakeLogits& take) = 0;
};

std::unique_ptr<Conductor> make_relay(Orchestra orchestra);
std::unique_ptr<Conductor> make_resident(Orchestra orchestra);

}  // namespace l2l::runtime
