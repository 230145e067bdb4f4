// The relay: Algorithm 2 of the L2L paper (Pudipeddi et al., "Training Large Neural Networks with Constant Memory using
// a New Execution Algorithm", 2020). Each layer comes to the device once in the forward and once in the backward pass,
// and all microbatches run through it while it is there.
//
// Everything here enqueues; nothing computes or copies. Beside the compute stream run, each on streams of its own:
//   weights_    fetches the weights of the layers ahead, as soon as each is updated (transfer/weight_stream.h)
//   the stash   takes layer inputs, and what else blocks save, to the host and back (transfer/stash.h)
//   gradients   of a finished layer go to the parameter server, which updates the layer (transfer/gradient_drain.h)
#include "runtime/executor.h"
#include "runtime/layer_visits.h"

namespace l2l::runtime {
namespace {

using device::BufferView;
using Visit = transfer::WeightStream::Visit;

class Relay final : public Executor {
 public:
  explicit Relay(const ExecutorResources& resources);
  void train(eps::Version version) override;
  void evaluate(eps::Version version) override;
  void predict(eps::Version version, std::int64_t row, const LayerRunner::TakeLogits& take) override;

 private:
  Visit forward_pass(int first, int last, int microbatches);
  void backward_pass(const Visit& turn);
  BufferView accumulate_gradients(int layer, BufferView wire);

  LayerVisits layers_;
  LayerRunner& runner_;
  transfer::WeightStream& weights_;
  device::Stream& compute_;
  const BufferView accumulator_;
  const int microbatches_;
  const int first_block_, last_block_, head_;  // layers; the head's first one
  const int last_;                             // the head's last layer; above head_ where the head is in chunks
  const int turn_;                             // the forward pass of a training step ends here
  std::vector<LayerIndex> forward_order_, training_order_;  // of fetched weights
};

void Relay::train(eps::Version version) {
  weights_.begin_pass(training_order_, version);
  layers_.begin_forward(/*keep=*/true);
  Visit turn = forward_pass(0, last_block_, microbatches_);
  layers_.begin_backward();
  if (turn_ > last_block_) {
    weights_.release(turn, compute_);
    turn = forward_pass(head_, turn_, microbatches_);
  }
  backward_pass(turn);
}

// Layers `first` to `last`. The last one stays on the device; returns its visit.
Visit Relay::forward_pass(int first, int last, int microbatches) {
  for (int layer = first;; ++layer) {
    const Visit visit = weights_.next(compute_);
    for (int u = 0; u < microbatches; ++u) layers_.forward(layer, u, visit.wire);
    if (layer == last) return visit;
    weights_.release(visit, compute_);
  }
}

// All layers, from the head to the embedding. `turn`: the layer that is still on the device.
void Relay::backward_pass(const Visit& turn) {
  for (int layer = last_; layer >= first_block_; --layer) {
    const Visit visit = layer == turn_ ? turn : weights_.next(compute_);
    const BufferView gradients = accumulate_gradients(layer, visit.wire);
    weights_.release(visit, compute_);
    layers_.send_gradients(layer, gradients);
  }
  for (int layer = first_block_ - 1; layer >= 0; --layer) {
    layers_.send_gradients(layer, accumulate_gradients(layer, /*wire=*/{}));
  }
}

BufferView Relay::accumulate_gradients(int layer, BufferView wire) {
  const BufferView gradients = accumulator_.slice(0, runner_.gradient_bytes(layer));
  layers_.zero(gradients);
  for (int u = 0; u < microbatches_; ++u) layers_.backward(layer, u, wire, gradients);
  return gradients;
}

void Relay::evaluate(eps::Version version) {
  weights_.begin_pass(forward_order_, version);
  layers_.begin_forward(/*keep=*/false);
  weights_.release(forward_pass(0, last_, microbatches_), compute_);
  for (int u = 0; u < microbatches_; ++u) layers_.end_forward(u);
}

void Relay::predict(eps::Version version, std::int64_t row, const LayerRunner::TakeLogits& take) {
  weights_.begin_pass(forward_order_, version);
  layers_.begin_forward(/*keep=*/false);
  weights_.release(forward_pass(0, last_block_, /*microbatches=*/1), compute_);
  for (int layer = head_; layer <= last_; ++layer) {
    const Visit visit = weights_.next(compute_);
    layers_.predict(layer, row, visit.wire, take);
    weights_.release(visit, compute_);
  }
  layers_.end_forward(0);
}

// A head in chunks has a forward pass, after which its last chunk stays on the device. Below a head that is one layer,
// the last block stays.
Relay::Relay(const ExecutorResources& resources)
    : layers_(resources),
      runner_(resources.runner),
      weights_(resources.weights),
      compute_(runner_.compute()),
      accumulator_(resources.accumulators.at(0)),
      microbatches_(resources.microbatches),
      first_block_(runner_.model().block(1)),
      last_block_(runner_.model().head() - 1),
      head_(runner_.model().head()),
      last_(runner_.model().layers() - 1),
      turn_(head_ < last_ ? last_ : last_block_) {
  for (int layer = 0; layer <= last_; ++layer) forward_order_.push_back(layer);
  for (int layer = 0; layer <= turn_; ++layer) training_order_.push_back(layer);
  for (int layer = last_; layer >= first_block_; --layer) {
    if (layer != turn_) training_order_.push_back(layer);
  }
}

}  // namespace

std::unique_ptr<Executor> make_relay_executor(const ExecutorResources& resources) {
  return std::make_unique<Relay>(resources);
}

}  // namespace l2l::runtime
