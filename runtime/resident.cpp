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
  void predict(eps::Version version, std::int64_t row, const TakeLogits& take) override;

 private:
  void open_pass(eps::Version version, bool keep);
  void close_pass();
  BufferView wire(int layer);
  void climb(int microbatch);
  void climb_head(int microbatch);
  void descend(int microbatch);
  void rebuild(int block, int microbatch);
  void descend_embedding(int microbatch);
  void descend_head(int microbatch);
  BufferView gradients_of(int layer, int microbatch);
  void finish_layer(int layer, int microbatch);

  // Of the microbatch at work.
  StashItem head_input() const { return {head_, 0}; }
  BufferView normed() const { return input_gradients_.incoming(0); }

  LayerRunner& runner_;
  transfer::WeightStream& weights_;
  transfer::Stash& stash_;
  transfer::Stash& saved_;
  transfer::GradientDrain& gradients_;
  const models::Model& model_;
  device::Stream& compute_;
  const std::vector<BufferView> accumulators_;
  const int microbatches_;
  const int blocks_;
  const int head_;  // the head's first layer
  const int last_;  // its last one: another, if the head is in chunks
  GradientRotation input_gradients_;
  std::vector<LayerIndex> order_;
  std::vector<StashItem> stash_order_;
  std::vector<Visit> visits_;  // of this pass so far, by layer; room for all is reserved
};

void Resident::train(eps::Version version) {
  open_pass(version, /*keep=*/true);
  for (int u = 0; u < microbatches_; ++u) {
    climb(u);
    stash_.begin_backward(stash_order_, compute_);
    saved_.begin_backward(stash_order_, compute_);
    descend_head(u);
    descend(u);
  }
  close_pass();
}

void Resident::climb(int microbatch) {
  const BufferView output = stash_.make({model_.block(1), 0}, compute_);
  const BufferView rows = model_.embedding_carries() ? input_gradients_.incoming(0) : output;
  for (int layer = 0; layer <= model_.block(0); ++layer) {
    runner_.forward(layer, microbatch, {.wire = wire(layer), .output = output, .carry = rows});
  }
  stash_.made({model_.block(1), 0}, compute_);
  for (int block = 1; block <= blocks_; ++block) {
    const int layer = model_.block(block);
    const StashItem from{layer, 0}, to{layer + 1, 0};
    const BufferView output = stash_.make(to, compute_), saved = saved_.make(from, compute_);
    runner_.forward(layer, microbatch,
                    {.wire = wire(layer), .input = stash_.read(from), .output = output, .saved = saved});
    stash_.made(to, compute_);
    stash_.read_done(from, compute_);
    saved_.made(from, compute_);
    saved_.read_done(from, compute_);
  }
}

// Of a head in chunks: norm, then the softmax of every row.
void Resident::climb_head(int microbatch) {
  runner_.device().fill_zero(compute_, runner_.carry(0));
  runner_.forward(head_, microbatch, {.wire = wire(head_), .input = stash_.read(head_input()), .output = normed()});
  for (int layer = head_ + 1; layer <= last_; ++layer) {
    runner_.forward(layer, microbatch, {.wire = wire(layer), .normed = normed(), .carry = runner_.carry(0)});
  }
}

void Resident::descend_head(int microbatch) {
  if (head_ < last_) climb_head(microbatch);
  for (int layer = last_; layer > head_; --layer) {
    runner_.backward(layer, microbatch,
                     {.wire = wire(layer),
                      .gradients = gradients_of(layer, microbatch),
                      .normed = normed(),
                      .carry = runner_.carry(0)});
    finish_layer(layer, microbatch);
  }
  runner_.backward(head_, microbatch,
                   {.wire = wire(head_),
                    .input = stash_.read(head_input()),
                    .input_gradient = input_gradients_.outgoing(0),
                    .gradients = gradients_of(head_, microbatch),
                    .carry = runner_.carry(0)});
  if (!model_.rebuilds) stash_.read_done(head_input(), compute_);
  finish_layer(head_, microbatch);
  input_gradients_.advance();
}

void Resident::descend(int microbatch) {
  for (int block = blocks_; block > 0; --block) {
    const int layer = model_.block(block);
    const StashItem item{layer, 0};
    if (model_.rebuilds) {
      rebuild(block, microbatch);
    } else {
      runner_.backward(layer, microbatch,
                       {.wire = wire(layer),
                        .input = stash_.fetch(item, compute_),
                        .saved = saved_.fetch(item, compute_),
                        .output_gradient = input_gradients_.incoming(0),
                        .input_gradient = input_gradients_.outgoing(0),
                        .gradients = gradients_of(layer, microbatch)});
      stash_.fetch_done(item, compute_);
      saved_.fetch_done(item, compute_);
    }
    finish_layer(layer, microbatch);
    input_gradients_.advance();
  }
  descend_embedding(microbatch);
}

// The backward visit of a reversible block: from its output to its input.
void Resident::rebuild(int block, int microbatch) {
  const int layer = model_.block(block);
  const StashItem input{layer, 0}, output{layer + 1, 0};
  const BufferView rebuilt = stash_.make(input, compute_);
  runner_.backward(layer, microbatch,
                   {.wire = wire(layer),
                    .input = stash_.read(output),
                    .output = rebuilt,
                    .output_gradient = input_gradients_.incoming(0),
                    .input_gradient = input_gradients_.outgoing(0),
                    .gradients = gradients_of(layer, microbatch)});
  stash_.made(input, compute_);
  stash_.read_done(output, compute_);
}

void Resident::descend_embedding(int microbatch) {
  const StashItem rebuilt{model_.block(1), 0};
  for (int layer = model_.block(0); layer >= 0; --layer) {
    runner_.backward(layer, microbatch,
                     {.input = model_.drifts() ? stash_.read(rebuilt) : BufferView{},
                      .output_gradient = input_gradients_.incoming(0),
                      .gradients = gradients_of(layer, microbatch)});
    finish_layer(layer, microbatch);
  }
  if (model_.rebuilds) stash_.read_done(rebuilt, compute_);
}

// The accumulators of `layer`, zeroed before the first microbatch.
BufferView Resident::gradients_of(int layer, int microbatch) {
  const BufferView gradients = accumulators_[static_cast<std::size_t>(layer)];
  if (microbatch == 0) runner_.device().fill_zero(compute_, gradients);
  return gradients;
}

// Sends the gradients off after the last microbatch.
void Resident::finish_layer(int layer, int microbatch) {
  if (microbatch + 1 < microbatches_) return;
  const BufferView gradients = accumulators_[static_cast<std::size_t>(layer)];
  runner_.round_gradients(layer, gradients, gradients_.acquire(layer, compute_));
  gradients_.drain(compute_);
}

void Resident::open_pass(eps::Version version, bool keep) {
  weights_.begin_pass(order_, version);
  stash_.begin_forward(keep);
  saved_.begin_forward(keep);
  visits_.clear();
}

// Takes layers as they are first needed: the first forward waits for the update of one layer at a time.
BufferView Resident::wire(int layer) {
  while (visits_.size() <= static_cast<std::size_t>(layer)) visits_.push_back(weights_.next(compute_));
  return visits_[static_cast<std::size_t>(layer)].wire;
}

// Releases in the order of layers, so that each keeps its slot.
void Resident::close_pass() {
  for (const Visit& visit : visits_) weights_.release(visit, compute_);
}

void Resident::evaluate(eps::Version version) {
  open_pass(version, /*keep=*/false);
  for (int u = 0; u < microbatches_; ++u) {
    climb(u);
    if (head_ < last_) {
      climb_head(u);
    } else {
      runner_.forward(head_, u, {.wire = wire(head_), .input = stash_.read(head_input())});
    }
    stash_.read_done(head_input(), compute_);
  }
  close_pass();
}

void Resident::predict(eps::Version version, std::int64_t row, const TakeLogits& take) {
  open_pass(version, /*keep=*/false);
  climb(0);
  const BufferView input = runner_.row_of(stash_.read(head_input()), row);
  for (int layer = head_; layer <= last_; ++layer) runner_.predict(layer, wire(layer), input, normed(), take);
  stash_.read_done(head_input(), compute_);
  close_pass();
}

Resident::Resident(Orchestra orchestra)
    : runner_(orchestra.runner),
      weights_(orchestra.weights),
      stash_(orchestra.stash),
      saved_(orchestra.saved),
      gradients_(orchestra.gradients),
      model_(orchestra.runner.model()),
      compute_(orchestra.runner.compute()),
      accumulators_(std::move(orchestra.accumulators)),
      microbatches_(orchestra.microbatches),
      blocks_(model_.blocks()),
      head_(model_.head()),
      last_(model_.layers() - 1),
      input_gradients_(std::move(orchestra.input_gradients)) {
  for (int layer = 0; layer <= last_; ++layer) order_.push_back(layer);
  for (int block = blocks_; block > 0; --block) stash_order_.push_back({model_.block(block), 0});
  visits_.reserve(order_.size());
}

}  // namespace

std::unique_ptr<Conductor> make_resident(Orchestra orchestra) {
  return std::make_unique<Resident>(std::move(orchestra));
}

}  // namespace l2l::runtime
