// Resident execution: the conventional baseline. All wires and gradients stay on the device; one microbatch after the
// other goes up and down all layers, accumulating gradients; the last one sends each layer's gradients off. Moments and
// update stay in the parameter server, and each wire is sent again once a step.
#include "runtime/conductor.h"
#include "runtime/gradient_rotation.h"

namespace l2l::runtime {
namespace {

using device::BufferView;
using transfer::StashItem;
using Visit = transfer::WeightStream::Visit;

class Resident final : public Conductor {
 public:
  explicit Resident(Orchestra orchestra);
  void train(eps::Version version) override;
  void evaluate(eps::Version version) override;
  void predict(eps::Version version, std::int64_t row) override;

 private:
  void open_pass(eps::Version version, bool keep);
  void close_pass();
  const Visit& visit(int layer);
  void climb(int microbatch);
  void descend(int microbatch);
  BufferView gradients_of(int layer, int microbatch);
  void finish_layer(int layer, int microbatch);

  LayerRunner& runner_;
  transfer::WeightStream& weights_;
  transfer::Stash& stash_;
  transfer::GradientDrain& gradients_;
  device::Stream& compute_;
  const std::vector<BufferView> accumulators_;
  const int microbatches_;
  const int last_block_;
  const int head_;
  GradientRotation input_gradients_;
  std::vector<LayerIndex> order_;
  std::vector<StashItem> stash_order_;
  std::vector<Visit> visits_;  // of this pass so far, by layer; room for all is reserved
};

void Resident::train(eps::Version version) {
  open_pass(version, /*keep=*/true);
  for (int u = 0; u < microbatches_; ++u) {
    climb(u);
    descend(u);
  }
  close_pass();
}

void Resident::climb(int microbatch) {
  for (int layer = 0; layer <= last_block_; ++layer) {
    const StashItem from{layer, 0}, to{layer + 1, 0};
    const BufferView input = layer > 0 ? stash_.read(from) : BufferView{};
    runner_.forward(layer, microbatch, visit(layer).wire, input, stash_.make(to, compute_));
    stash_.made(to, compute_);
    if (layer > 0) stash_.read_done(from, compute_);
  }
}

void Resident::descend(int microbatch) {
  stash_.begin_backward(stash_order_);
  runner_.head(microbatch, visit(head_).wire, stash_.read({head_, 0}), input_gradients_.outgoing(0),
               gradients_of(head_, microbatch));
  stash_.read_done({head_, 0}, compute_);
  finish_layer(head_, microbatch);
  for (int layer = last_block_; layer > 0; --layer) {
    const StashItem item{layer, 0};
    runner_.backward(layer, microbatch, visit(layer).wire, stash_.fetch(item, compute_), input_gradients_.incoming(0),
                     input_gradients_.outgoing(0), gradients_of(layer, microbatch));
    stash_.fetch_done(item, compute_);
    finish_layer(layer, microbatch);
  }
  runner_.backward(0, microbatch, {}, {}, input_gradients_.incoming(0), {}, gradients_of(0, microbatch));
  finish_layer(0, microbatch);
}

// The accumulators of `layer`, zeroed before the first microbatch.
BufferView Resident::gradients_of(int layer, int microbatch) {
  const BufferView gradients = accumulators_[static_cast<std::size_t>(layer)];
  if (microbatch == 0) runner_.device().fill_zero(compute_, gradients);
  return gradients;
}

void Resident::finish_layer(int layer, int microbatch) {
  if (microbatch + 1 == microbatches_) {
    const BufferView gradients = accumulators_[static_cast<std::size_t>(layer)];
    runner_.round_gradients(layer, gradients, gradients_.acquire(layer, compute_));
    gradients_.drain(compute_);
  }
  input_gradients_.advance();
}

void Resident::open_pass(eps::Version version, bool keep) {
  weights_.begin_pass(order_, version);
  stash_.begin_forward(keep);
  visits_.clear();
}

// Takes layers as they are first needed: the first forward waits for the update of one layer at a time.
const Visit& Resident::visit(int layer) {
  while (visits_.size() <= static_cast<std::size_t>(layer)) visits_.push_back(weights_.next(compute_));
  return visits_[static_cast<std::size_t>(layer)];
}

// Releases in the order of layers, so that each keeps its slot.
void Resident::close_pass() {
  for (const Visit& visit : visits_) weights_.release(visit, compute_);
}

void Resident::evaluate(eps::Version version) {
  open_pass(version, /*keep=*/false);
  for (int u = 0; u < microbatches_; ++u) {
    climb(u);
    runner_.loss(u, visit(head_).wire, stash_.read({head_, 0}));
    stash_.read_done({head_, 0}, compute_);
  }
  close_pass();
}

void Resident::predict(eps::Version version, std::int64_t row) {
  open_pass(version, /*keep=*/false);
  climb(0);
  runner_.logits(visit(head_).wire, runner_.row_of(stash_.read({head_, 0}), row));
  stash_.read_done({head_, 0}, compute_);
  close_pass();
}

Resident::Resident(Orchestra orchestra)
    : runner_(orchestra.runner),
      weights_(orchestra.weights),
      stash_(orchestra.stash),
      gradients_(orchestra.gradients),
      compute_(orchestra.runner.compute()),
      accumulators_(std::move(orchestra.accumulators)),
      microbatches_(orchestra.microbatches),
      last_block_(orchestra.runner.model().blocks()),
      head_(orchestra.runner.model().head()),
      input_gradients_(std::move(orchestra.input_gradients)) {
  for (int layer = 0; layer <= head_; ++layer) order_.push_back(layer);
  for (int layer = last_block_; layer > 0; --layer) stash_order_.push_back({layer, 0});
  visits_.reserve(order_.size());
}

}  // namespace

std::unique_ptr<Conductor> make_resident(Orchestra orchestra) {
  return std::make_unique<Resident>(std::move(orchestra));
}

}  // namespace l2l::runtime
