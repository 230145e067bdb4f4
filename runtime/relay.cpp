// The relay: Algorithm 2 of the L2L paper (Pudipeddi et al., 2020), each layer visiting the device once on the way up
// and once on the way down, all microbatches running through it while it is there.
//
// Everything here enqueues; nothing computes or copies. Beside the compute stream run, each on its own:
//   weights_    the wires of the layers ahead, as soon as their update is done (weight_stream)
//   stash_      layer inputs on their way to the host, and back ahead of the backward visit (stash)
//   gradients_  finished gradients on their way to the parameter server, which updates that layer (gradient_drain)
#include "runtime/conductor.h"
#include "runtime/gradient_rotation.h"

namespace l2l::runtime {
namespace {

using device::BufferView;
using transfer::StashItem;
using Visit = transfer::WeightStream::Visit;

class Relay final : public Conductor {
 public:
  explicit Relay(Orchestra orchestra);
  void train(eps::Version version) override;
  void evaluate(eps::Version version) override;
  void predict(eps::Version version, std::int64_t row) override;

 private:
  enum class Keep : bool { no, yes };

  Visit climb(Keep keep, int microbatches);
  void forward(int layer, int microbatch, const Visit& visit);
  void head(int microbatch, const Visit& visit, BufferView gradients);
  void backward(int layer, int microbatch, const Visit& visit, BufferView gradients);
  BufferView zeroed_gradients(int layer);
  void send_gradients(int layer, BufferView gradients);

  LayerRunner& runner_;
  transfer::WeightStream& weights_;
  transfer::Stash& stash_;
  transfer::GradientDrain& gradients_;
  device::Stream& compute_;
  const BufferView accumulators_;
  const int microbatches_;
  const int last_block_;
  const int head_;
  GradientRotation input_gradients_;
  std::vector<LayerIndex> up_;           // layers in the order of their visits, evaluation
  std::vector<LayerIndex> up_and_down_;  // training
  std::vector<StashItem> stash_order_;   // of the way down
};

void Relay::train(eps::Version version) {
  weights_.begin_pass(up_and_down_, version);
  const Visit top = climb(Keep::yes, microbatches_);  // the last block stays while the head runs

  stash_.begin_backward(stash_order_);
  {
    const Visit visit = weights_.next(compute_);
    const BufferView gradients = zeroed_gradients(head_);
    for (int u = 0; u < microbatches_; ++u) head(u, visit, gradients);
    weights_.release(visit, compute_);
    send_gradients(head_, gradients);
  }
  for (int layer = last_block_; layer > 0; --layer) {
    const Visit visit = layer == last_block_ ? top : weights_.next(compute_);
    const BufferView gradients = zeroed_gradients(layer);
    for (int u = 0; u < microbatches_; ++u) backward(layer, u, visit, gradients);
    weights_.release(visit, compute_);
    send_gradients(layer, gradients);
  }
  const BufferView gradients = zeroed_gradients(0);
  for (int u = 0; u < microbatches_; ++u) {
    runner_.backward(0, u, {}, {}, input_gradients_.incoming(u), {}, gradients);
  }
  send_gradients(0, gradients);
}

// Layers 0 to N; returns the visit of block N, still open.
Visit Relay::climb(Keep keep, int microbatches) {
  stash_.begin_forward(keep == Keep::yes);
  for (int layer = 0;; ++layer) {
    const Visit visit = weights_.next(compute_);
    for (int u = 0; u < microbatches; ++u) forward(layer, u, visit);
    if (layer == last_block_) return visit;
    weights_.release(visit, compute_);
  }
}

void Relay::forward(int layer, int microbatch, const Visit& visit) {
  const StashItem from{layer, microbatch}, to{layer + 1, microbatch};
  const BufferView input = layer > 0 ? stash_.read(from) : BufferView{};
  runner_.forward(layer, microbatch, visit.wire, input, stash_.make(to, compute_));
  stash_.made(to, compute_);
  if (layer > 0) stash_.read_done(from, compute_);
}

void Relay::head(int microbatch, const Visit& visit, BufferView gradients) {
  const StashItem item{head_, microbatch};
  runner_.head(microbatch, visit.wire, stash_.read(item), input_gradients_.outgoing(microbatch), gradients);
  stash_.read_done(item, compute_);
}

void Relay::backward(int layer, int microbatch, const Visit& visit, BufferView gradients) {
  const StashItem item{layer, microbatch};
  runner_.backward(layer, microbatch, visit.wire, stash_.fetch(item, compute_), input_gradients_.incoming(microbatch),
                   input_gradients_.outgoing(microbatch), gradients);
  stash_.fetch_done(item, compute_);
}

BufferView Relay::zeroed_gradients(int layer) {
  const BufferView gradients = accumulators_.slice(0, runner_.gradient_bytes(layer));
  runner_.device().fill_zero(compute_, gradients);
  return gradients;
}

void Relay::send_gradients(int layer, BufferView gradients) {
  runner_.round_gradients(layer, gradients, gradients_.acquire(layer, compute_));
  gradients_.drain(compute_);
  input_gradients_.advance();
}

void Relay::evaluate(eps::Version version) {
  weights_.begin_pass(up_, version);
  weights_.release(climb(Keep::no, microbatches_), compute_);
  const Visit visit = weights_.next(compute_);
  for (int u = 0; u < microbatches_; ++u) {
    const StashItem item{head_, u};
    runner_.loss(u, visit.wire, stash_.read(item));
    stash_.read_done(item, compute_);
  }
  weights_.release(visit, compute_);
}

void Relay::predict(eps::Version version, std::int64_t row) {
  weights_.begin_pass(up_, version);
  weights_.release(climb(Keep::no, 1), compute_);
  const Visit visit = weights_.next(compute_);
  const StashItem item{head_, 0};
  runner_.logits(visit.wire, runner_.row_of(stash_.read(item), row));
  stash_.read_done(item, compute_);
  weights_.release(visit, compute_);
}

Relay::Relay(Orchestra orchestra)
    : runner_(orchestra.runner),
      weights_(orchestra.weights),
      stash_(orchestra.stash),
      gradients_(orchestra.gradients),
      compute_(orchestra.runner.compute()),
      accumulators_(orchestra.accumulators.at(0)),
      microbatches_(orchestra.microbatches),
      last_block_(orchestra.runner.model().blocks()),
      head_(orchestra.runner.model().head()),
      input_gradients_(std::move(orchestra.input_gradients)) {
  for (int layer = 0; layer <= head_; ++layer) up_.push_back(layer);
  up_and_down_ = up_;
  for (int layer = last_block_ - 1; layer > 0; --layer) up_and_down_.push_back(layer);
  for (int layer = last_block_; layer > 0; --layer) {
    for (int u = 0; u < microbatches_; ++u) stash_order_.push_back({layer, u});
  }
}

}  // namespace

std::unique_ptr<Conductor> make_relay(Orchestra orchestra) { return std::make_unique<Relay>(std::move(orchestra)); }

}  // namespace l2l::runtime
