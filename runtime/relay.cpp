// The relay: Algorithm 2 of the L2L paper (Pudipeddi et al., 2020), each layer visiting the device once on the way up
// and once on the way down, all microbatches running through it while it is there.
//
// Everything here enqueues; nothing computes or copies. Beside the compute stream run, each on its own:
//   weights_    the wires of the layers ahead, as soon as their update is done (weight_stream)
//   stash_      layer inputs on their way to the host, and back ahead of the backward visit (stash)
//   saved_      the same of what a block's forward visit saves for its backward visit (device/recompute)
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
  void predict(eps::Version version, std::int64_t row, const TakeLogits& take) override;

 private:
  enum class Keep : bool { no, yes };

  Visit climb(Keep keep, int microbatches);
  void embed(int microbatches);
  void forward(int block, int microbatch, const Visit& visit);
  void head();
  void head_chunks();
  Visit climb_head();
  void backward(int block, int microbatch, const Visit& visit, BufferView gradients);
  void rebuild(int block, int microbatch, const Visit& visit, BufferView gradients);
  void descend_embedding();
  BufferView zeroed_gradients(int layer);
  void send_gradients(int layer, BufferView gradients);

  StashItem head_input(int microbatch) const { return {head_, microbatch}; }
  // Of a head in chunks; lies where the backward pass has no use for memory yet.
  BufferView normed(int microbatch) const { return input_gradients_.incoming(microbatch); }
  // Of an embedding in chunks, the rows in the making: the layer input itself, unless that is of another shape.
  BufferView rows(int microbatch) const {
    return model_.embedding_carries() ? input_gradients_.incoming(microbatch)
                                      : embedded_[static_cast<std::size_t>(microbatch)];
  }

  LayerRunner& runner_;
  transfer::WeightStream& weights_;
  transfer::Stash& stash_;
  transfer::Stash& saved_;
  transfer::GradientDrain& gradients_;
  const models::Model& model_;
  device::Stream& compute_;
  const BufferView accumulators_;
  const int microbatches_;
  const int blocks_;
  const int head_;  // the head's first layer
  const int last_;  // its last one: another, if the head is in chunks
  GradientRotation input_gradients_;
  std::vector<BufferView> embedded_;     // by microbatch
  std::vector<LayerIndex> up_;           // layers in the order of their visits, evaluation
  std::vector<LayerIndex> up_and_down_;  // training
  std::vector<StashItem> stash_order_;   // of the way down
};

void Relay::train(eps::Version version) {
  weights_.begin_pass(up_and_down_, version);
  Visit visit = climb(Keep::yes, microbatches_);

  stash_.begin_backward(stash_order_, compute_);
  saved_.begin_backward(stash_order_, compute_);
  const bool chunks = head_ < last_;
  if (chunks) {
    weights_.release(visit, compute_);  // its slot is needed; else the last block stays while the head runs
    head_chunks();
  }
  head();
  if (chunks) visit = weights_.next(compute_);
  for (int block = blocks_; block > 0; --block) {
    if (block < blocks_) visit = weights_.next(compute_);
    const BufferView gradients = zeroed_gradients(model_.block(block));
    for (int u = 0; u < microbatches_; ++u) backward(block, u, visit, gradients);
    weights_.release(visit, compute_);
    send_gradients(model_.block(block), gradients);
    input_gradients_.advance();
  }
  descend_embedding();
}

// Embedding and blocks 1 to N; returns the visit of block N, still open.
Visit Relay::climb(Keep keep, int microbatches) {
  stash_.begin_forward(keep == Keep::yes);
  saved_.begin_forward(keep == Keep::yes);
  embed(microbatches);
  for (int block = 1;; ++block) {
    const Visit visit = weights_.next(compute_);
    for (int u = 0; u < microbatches; ++u) forward(block, u, visit);
    if (block == blocks_) return visit;
    weights_.release(visit, compute_);
  }
}

// Through one layer, or chunk by chunk of the table: each adds its rows to what the others have made.
void Relay::embed(int microbatches) {
  for (int u = 0; u < microbatches; ++u)
    embedded_[static_cast<std::size_t>(u)] = stash_.make({model_.block(1), u}, compute_);
  for (int layer = 0; layer <= model_.block(0); ++layer) {
    const Visit visit = weights_.next(compute_);
    for (int u = 0; u < microbatches; ++u) {
      const BufferView output = embedded_[static_cast<std::size_t>(u)];
      runner_.forward(layer, u, {.wire = visit.wire, .output = output, .carry = rows(u)});
    }
    weights_.release(visit, compute_);
  }
  for (int u = 0; u < microbatches; ++u) stash_.made({model_.block(1), u}, compute_);
}

void Relay::forward(int block, int microbatch, const Visit& visit) {
  const StashItem from{model_.block(block), microbatch}, to{model_.block(block + 1), microbatch};
  const BufferView output = stash_.make(to, compute_), saved = saved_.make(from, compute_);
  runner_.forward(model_.block(block), microbatch,
                  {.wire = visit.wire, .input = stash_.read(from), .output = output, .saved = saved});
  stash_.made(to, compute_);
  stash_.read_done(from, compute_);
  saved_.made(from, compute_);
  saved_.read_done(from, compute_);
}

// Of a head in chunks, this is the norm's part; the chunks have been before.
void Relay::head() {
  const Visit visit = weights_.next(compute_);
  const BufferView gradients = zeroed_gradients(head_);
  for (int u = 0; u < microbatches_; ++u) {
    runner_.backward(head_, u,
                     {.wire = visit.wire,
                      .input = stash_.read(head_input(u)),
                      .input_gradient = input_gradients_.outgoing(u),
                      .gradients = gradients,
                      .carry = runner_.carry(u)});
    if (!model_.rebuilds) stash_.read_done(head_input(u), compute_);  // else block N has yet to read it
  }
  weights_.release(visit, compute_);
  send_gradients(head_, gradients);
  input_gradients_.advance();
}

// Up for the softmax of every row, down for the gradients; the last chunk stays in between.
void Relay::head_chunks() {
  Visit visit = climb_head();
  for (int layer = last_; layer > head_; --layer) {
    if (layer < last_) visit = weights_.next(compute_);
    const BufferView gradients = zeroed_gradients(layer);
    for (int u = 0; u < microbatches_; ++u) {
      runner_.backward(layer, u,
                       {.wire = visit.wire, .gradients = gradients, .normed = normed(u), .carry = runner_.carry(u)});
    }
    weights_.release(visit, compute_);
    send_gradients(layer, gradients);
  }
}

// Norm and chunks; returns the visit of the last chunk, still open. The head's inputs are kept.
Visit Relay::climb_head() {
  Visit visit = weights_.next(compute_);
  for (int u = 0; u < microbatches_; ++u) {
    runner_.device().fill_zero(compute_, runner_.carry(u));
    runner_.forward(head_, u, {.wire = visit.wire, .input = stash_.read(head_input(u)), .output = normed(u)});
  }
  for (int layer = head_ + 1; layer <= last_; ++layer) {
    weights_.release(visit, compute_);
    visit = weights_.next(compute_);
    for (int u = 0; u < microbatches_; ++u) {
      runner_.forward(layer, u, {.wire = visit.wire, .normed = normed(u), .carry = runner_.carry(u)});
    }
  }
  return visit;
}

void Relay::backward(int block, int microbatch, const Visit& visit, BufferView gradients) {
  if (model_.rebuilds) return rebuild(block, microbatch, visit, gradients);
  const StashItem item{model_.block(block), microbatch};
  runner_.backward(model_.block(block), microbatch,
                   {.wire = visit.wire,
                    .input = stash_.fetch(item, compute_),
                    .saved = saved_.fetch(item, compute_),
                    .output_gradient = input_gradients_.incoming(microbatch),
                    .input_gradient = input_gradients_.outgoing(microbatch),
                    .gradients = gradients});
  stash_.fetch_done(item, compute_);
  saved_.fetch_done(item, compute_);
}

// The backward visit of a reversible block: from its output to its input.
void Relay::rebuild(int block, int microbatch, const Visit& visit, BufferView gradients) {
  const StashItem input{model_.block(block), microbatch}, output{model_.block(block + 1), microbatch};
  const BufferView rebuilt = stash_.make(input, compute_);
  runner_.backward(model_.block(block), microbatch,
                   {.wire = visit.wire,
                    .input = stash_.read(output),
                    .output = rebuilt,
                    .output_gradient = input_gradients_.incoming(microbatch),
                    .input_gradient = input_gradients_.outgoing(microbatch),
                    .gradients = gradients});
  stash_.made(input, compute_);
  stash_.read_done(output, compute_);
}

// Needs no weights, and what blocks have rebuilt only to see how far it has drifted.
void Relay::descend_embedding() {
  for (int layer = model_.block(0); layer >= 0; --layer) {
    const BufferView gradients = zeroed_gradients(layer);
    for (int u = 0; u < microbatches_; ++u) {
      const BufferView rebuilt = model_.drifts() ? stash_.read({model_.block(1), u}) : BufferView{};
      runner_.backward(layer, u,
                       {.input = rebuilt, .output_gradient = input_gradients_.incoming(u), .gradients = gradients});
    }
    send_gradients(layer, gradients);
  }
  for (int u = 0; u < microbatches_ && model_.rebuilds; ++u) stash_.read_done({model_.block(1), u}, compute_);
}

BufferView Relay::zeroed_gradients(int layer) {
  const BufferView gradients = accumulators_.slice(0, runner_.gradient_bytes(layer));
  runner_.device().fill_zero(compute_, gradients);
  return gradients;
}

void Relay::send_gradients(int layer, BufferView gradients) {
  runner_.round_gradients(layer, gradients, gradients_.acquire(layer, compute_));
  gradients_.drain(compute_);
}

void Relay::evaluate(eps::Version version) {
  weights_.begin_pass(up_, version);
  weights_.release(climb(Keep::no, microbatches_), compute_);
  if (head_ == last_) {
    const Visit visit = weights_.next(compute_);
    for (int u = 0; u < microbatches_; ++u) {
      runner_.forward(head_, u, {.wire = visit.wire, .input = stash_.read(head_input(u))});
    }
    weights_.release(visit, compute_);
  } else {
    weights_.release(climb_head(), compute_);
  }
  for (int u = 0; u < microbatches_; ++u) stash_.read_done(head_input(u), compute_);
}

void Relay::predict(eps::Version version, std::int64_t row, const TakeLogits& take) {
  weights_.begin_pass(up_, version);
  weights_.release(climb(Keep::no, 1), compute_);
  const BufferView input = runner_.row_of(stash_.read(head_input(0)), row);
  for (int layer = head_; layer <= last_; ++layer) {
    const Visit visit = weights_.next(compute_);
    runner_.predict(layer, visit.wire, input, normed(0), take);
    weights_.release(visit, compute_);
  }
  stash_.read_done(head_input(0), compute_);
}

Relay::Relay(Orchestra orchestra)
    : runner_(orchestra.runner),
      weights_(orchestra.weights),
      stash_(orchestra.stash),
      saved_(orchestra.saved),
      gradients_(orchestra.gradients),
      model_(orchestra.runner.model()),
      compute_(orchestra.runner.compute()),
      accumulators_(orchestra.accumulators.at(0)),
      microbatches_(orchestra.microbatches),
      blocks_(model_.blocks()),
      head_(model_.head()),
      last_(model_.layers() - 1),
      input_gradients_(std::move(orchestra.input_gradients)),
      embedded_(static_cast<std::size_t>(orchestra.microbatches)) {
  for (int layer = 0; layer <= last_; ++layer) up_.push_back(layer);
  up_and_down_ = up_;
  for (int layer = last_ - 1; layer >= model_.block(1); --layer) {
    // Block N stays while a head that is one layer runs.
    if (head_ < last_ || layer < model_.block(blocks_)) up_and_down_.push_back(layer);
  }
  for (int block = blocks_; block > 0; --block) {
    for (int u = 0; u < microbatches_; ++u) stash_order_.push_back({model_.block(block), u});
  }
}

}  // namespace

std::unique_ptr<Conductor> make_relay(Orchestra orchestra) { return std::make_unique<Relay>(std::move(orchestra)); }

}  // namespace l2l::runtime
