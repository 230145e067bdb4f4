// A minibatch's input (tokens, targets, what is known of rows) and output (losses, logits): page-locked staging memory
// on the host for the buffers on the devices. Each device has an equal part of consecutive microbatches. The sequences
// of a microbatch have one length, which may differ from microbatch to microbatch; at first it is the longest.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/data/prepared_minibatch.h"
#include "runtime/layer_runner.h"
#include "runtime/ranks.h"
#include "transfer/link.h"

namespace l2l::runtime {

// One device's part. Thread-bound: during a pass the device's relay thread, between passes the thread that fills it.
class MinibatchPart {
 public:
  // `staging`: page-locked, host_staging(...).batch bytes. All arguments must outlive this object.
  MinibatchPart(transfer::Link& link, LayerRunner& runner, int microbatches, std::int64_t sequence,
                device::BufferView staging);

  int microbatches() const { return microbatches_; }
  models::HeadKind head() const { return runner_.model().head_kind; }
  std::int64_t labels() const { return runner_.model().labels; }
  // Of the sequences of a microbatch: index into the lengths of the runner. What the microbatch held is lost; each
  // sequence is one document until its row fields are written.
  void set_length(int microbatch, int length);
  void set_longest(int microbatch) { set_length(microbatch, runner_.longest()); }
  // The same, but row fields are not written.
  void set_length_alone(int microbatch, int length) { runner_.set_length(microbatch, length); }
  // Token ids of one microbatch, and what it should predict (-1: nothing), [rows]; of a custom model all that rows
  // bring (Model::inputs, targets), a tensor behind the other. Write them between passes only.
  std::span<std::int32_t> tokens(int microbatch);
  std::span<std::int32_t> targets(int microbatch);
  const models::Model& model() const { return runner_.model(); }
  // Region::rows, [4, rows]. Empty where rows are not told apart.
  std::span<std::int32_t> row_fields(int microbatch);
  std::int64_t rows(int microbatch) const { return runner_.model_of(microbatch).rows; }
  int sequences() const { return microbatches_ * sequences_; }
  // Where sequence `index` of all microbatches is written.
  SequenceView sequence(int index);

  // What another part of the same shape holds.
  void take_from(const MinibatchPart& other);
  // Enqueues the copy to the device.
  void upload();
  // Enqueues the copy of what an evaluation leaves at LayerRunner::label_logits() to the host.
  void fetch_logits();
  // Of a labelled head, after fetch_logits() and a wait: those of a row of the microbatch.
  void logits(int microbatch, std::int64_t row, std::span<float> values) const;
  // Copies the losses to the host. Waits until the pass is done.
  void fetch_losses();
  // Sum over the microbatch's predicted tokens, in nats, after fetch_losses().
  double loss(int microbatch) const { return result(microbatch, 0); }
  // One of the numbers that Model::results_bytes() lists.
  double result(int microbatch, int index) const;
  // Copies at most max(Model::outputs(), hidden) elements of the compute dtype to the host, and converts them to fp32.
  // Waits until that is done.
  void fetch_values(device::BufferView source, std::span<float> values);

 private:
  // Of a microbatch's length; the places are as large as the longest needs.
  device::BufferView staged_inputs(int microbatch) const;
  device::BufferView staged_targets(int microbatch) const;
  device::BufferView staged_fields(int microbatch) const;
  device::BufferView results(Bytes begin, Bytes bytes) const;
  device::BufferView staged_logits(int microbatch) const;
  void wait();

  transfer::Link& link_;
  LayerRunner& runner_;
  const int microbatches_;
  const Bytes id_bytes_;  // of tokens and targets of one microbatch of the longest sequences
  const int sequences_;   // of one microbatch
  const device::BufferView staging_;
  const std::unique_ptr<device::Event> done_;
};

// A rank's minibatch, over the parts of its devices; counts, losses and outputs are those of all ranks. Thread-bound:
// the thread that calls the engine.
class Minibatch {
 public:
  // Parts in the order of devices, of equal size. All must outlive this object.
  Minibatch(std::vector<MinibatchPart*> parts, Ranks& ranks) : parts_(std::move(parts)), ranks_(ranks) {}

  // Of this rank, as are those below that take their number.
  int microbatches() const { return static_cast<int>(parts_.size()) * parts_[0]->microbatches(); }
  // Of one microbatch, as in MinibatchPart.
  std::span<std::int32_t> tokens(int microbatch) { return part(microbatch).tokens(place(microbatch)); }
  std::span<std::int32_t> targets(int microbatch) { return part(microbatch).targets(place(microbatch)); }
  int sequences() const { return static_cast<int>(parts_.size()) * parts_[0]->sequences(); }
  SequenceView sequence(int index) {
    const int each = parts_[0]->sequences();
    return parts_[static_cast<std::size_t>(index / each)]->sequence(index % each);
  }
  void set_longest(int microbatch) { part(microbatch).set_longest(place(microbatch)); }
  // Of the same shape.
  void take(PreparedMinibatch& samples);
  // Fills tokens and targets with pseudo-random numbers that the model takes, the same in every call. For measurements.
  void draw(const models::Model& model);
  // Of all sequences, padding included; of all ranks, as is all that follows, which all ranks ask for.
  std::int64_t rows();
  // The number of predicted tokens: targets at or above 0. Of documents with numbers and of questions: of these. Of a
  // custom model what its samples count for.
  std::int64_t predicted();
  // Sum of all microbatches' losses, added in their order, so that it is the same for any number of devices.
  double loss_sum() const;
  // Of a labelled head, after an evaluation: calls `take` for each labelled row, in the order of rows. `begins`: the
  // row is the first of its document that has a label.
  using TakeLabelled = std::function<void(std::span<const float> logits, std::int32_t target, bool begins)>;
  void for_each_labelled(const TakeLabelled& take);
  // Of a custom model, after an evaluation: calls `take` with what the last layer gave of each sample, in their order,
  // and the sample's targets, one tensor after the other.
  using TakeOutput = std::function<void(std::span<const float> values, std::span<const std::int32_t> targets)>;
  void for_each_output(const TakeOutput& take);
  // How far rebuilt residual streams have drifted (Model::drifts): root mean square of the difference over that of the
  // streams.
  double drift() const;

 private:
  template <typename Draw>
  void draw_tensors(const models::Model& model, const Draw& draw);
  // Those of this rank.
  void for_each_own_labelled(const TakeLabelled& take);
  void for_each_own_output(const TakeOutput& take);
  // Of one of the numbers that Model::results_bytes() lists, over the microbatches of all ranks, in their order.
  double sum_of(int index) const;
  MinibatchPart& part(int microbatch) const {
    return *parts_[static_cast<std::size_t>(microbatch / parts_[0]->microbatches())];
  }
  int place(int microbatch) const { return microbatch % parts_[0]->microbatches(); }

  const std::vector<MinibatchPart*> parts_;
  Ranks& ranks_;
};

}  // namespace l2l::runtime
