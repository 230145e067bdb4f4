// The relay: Algorithm 2 of the L2L paper (Pudipeddi et al., "Training Large Neural Networks with Constant Memory using
// a New Execution Algorithm", 2020).
//
//   for each layer, first to last:                            forward_pass()
//     bring its weights to the device
//     for each microbatch: compute the layer, stash its input
//   for each layer, last to first:                            backward_pass()
//     bring its weights to the device
//     for each microbatch: recompute the layer from its stashed input, add to its gradients
//     send its gradients to the parameter server, which updates it
//
// All of this enqueues work on the compute stream. Copies overlap with it, on streams of their own:
//   weights     of the next layers come as soon as they are updated (transfer/weight_stream.h)
//   stash       layer inputs, and what else blocks save, go to the host and come back (transfer/stash.h)
//   gradients   of finished layers go to the parameter server (transfer/gradient_drain.h)
#include <algorithm>

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
  void predict(eps::Version version, const Rows& rows, const LayerRunner::TakeRow& take) override;

 private:
  Visit forward_pass(int first, int last, int microbatches);
  void backward_pass(const Visit& turn);
  BufferView accumulate_gradients(int layer, BufferView wire);

  LayerVisits layers_;
  const models::Model& model_;
  transfer::WeightStream& weights_;
  device::Stream& compute_;
  const std::vector<BufferView> accumulators_;
  const int parts_, microbatches_;             // of this device
  const int first_block_, last_block_, head_;  // layers; the head's first one
  const int last_;                             // the head's last layer; above head_ where the head is in chunks
  const int turn_;                             // where a training step's forward pass ends
  std::vector<LayerIndex> forward_order_, training_order_;  // of fetched weights
};

void Relay::train(eps::Version version) {
  weights_.begin_pass(training_order_, version, transfer::PassOf::all_devices);
  layers_.begin_forward(/*keep=*/true);
  Visit turn = forward_pass(0, last_block_, microbatches_);
  layers_.begin_backward();
  if (turn_ > last_block_) {  // a head in chunks
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

// All layers, from the head to the embedding, which needs no weights; or, where some are frozen, down to the lowest
// that is trained. `turn`: the layer that is still on the device.
void Relay::backward_pass(const Visit& turn) {
  if (!model_.visited_again(turn_)) weights_.release(turn, compute_);
  for (int layer = last_; layer >= std::max(first_block_, model_.lowest_visited()); --layer) {
    const Visit visit = layer == turn_ ? turn : weights_.next(compute_);
    const BufferView gradients = accumulate_gradients(layer, visit.wire);
    weights_.release(visit, compute_);
    layers_.send_gradients(layer, gradients);
  }
  for (int layer = first_block_ - 1; layer >= 0; --layer) {
    if (model_.visited_again(layer)) layers_.send_gradients(layer, accumulate_gradients(layer, /*wire=*/{}));
  }
}

// Within a part one microbatch after the other; of parts as a binary tree, ((0 + 1) + (2 + 3)) + ..., whose upper
// levels the parameter server adds in the same way (eps/group_gradient.h). The accumulators are a stack of the sums
// that wait for their other half.
BufferView Relay::accumulate_gradients(int layer, BufferView wire) {
  const Bytes size = model_.gradient_bytes(layer, DType::f32);
  const auto sum = [&](std::size_t place) { return accumulators_[place].slice(0, size); };
  const int of_part = microbatches_ / parts_;
  std::size_t waiting = 0;
  for (int part = 0; part < parts_; ++part) {
    const BufferView gradients = sum(waiting++);
    layers_.zero(gradients);
    for (int u = part * of_part; u < (part + 1) * of_part; ++u) layers_.backward(layer, u, wire, gradients);
    for (int above = part; above % 2 == 1; above /= 2, --waiting) {
      layers_.add_gradients(layer, sum(waiting - 2), sum(waiting - 1));
    }
  }
  return sum(0);
}

void Relay::evaluate(eps::Version version) {
  weights_.begin_pass(forward_order_, version, transfer::PassOf::all_devices);
  layers_.begin_forward(/*keep=*/false);
  weights_.release(forward_pass(0, last_, microbatches_), compute_);
  for (int u = 0; u < microbatches_; ++u) layers_.end_forward(u);
}

void Relay::predict(eps::Version version, const Rows& rows, const LayerRunner::TakeRow& take) {
  weights_.begin_pass(forward_order_, version, transfer::PassOf::this_device);
  layers_.begin_forward(/*keep=*/false);
  weights_.release(forward_pass(0, last_block_, /*microbatches=*/1), compute_);
  for (int layer = head_; layer <= last_; ++layer) {
    const Visit visit = weights_.next(compute_);
    layers_.predict(layer, rows, visit.wire, take);
    weights_.release(visit, compute_);
  }
  layers_.end_forward(0);
}

// The last layer of the forward pass stays on the device for its backward pass. That is the last chunk of a head in
// chunks; a head that is one layer has no forward pass of its own, so it is the last block.
Relay::Relay(const ExecutorResources& resources)
    : layers_(resources),
      model_(resources.runner.model()),
      weights_(resources.weights),
      compute_(resources.runner.compute()),
      accumulators_(resources.accumulators),
      parts_(resources.parts),
      microbatches_(resources.microbatches),
      first_block_(model_.block(1)),
      last_block_(model_.head() - 1),
      head_(model_.head()),
      last_(model_.layers() - 1),
      turn_(head_ < last_ ? last_ : last_block_) {
  for (int layer = 0; layer <= last_; ++layer) forward_order_.push_back(layer);
  for (int layer = 0; layer <= turn_; ++layer) training_order_.push_back(layer);
  for (int layer = last_; layer >= std::max(first_block_, model_.lowest_visited()); --layer) {
    if (layer != turn_) training_order_.push_back(layer);
  }
}

}  // namespace

std::unique_ptr<Executor> make_relay_executor(const ExecutorResources& resources) {
  return std::make_unique<Relay>(resources);
}

}  // namespace l2l::runtime
