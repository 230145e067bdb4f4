// One minibatch on its way in (tokens, targets) and out (losses): page-locked staging on the host beside the buffers on
// the devices. Each device has its part: microbatches that follow each other.
#pragma once

#include <span>
#include <vector>

#include "runtime/layer_runner.h"
#include "transfer/link.h"

namespace l2l::runtime {

// What one device gets and gives. Thread-bound: the device's relay thread; between passes, whoever fills it.
class MinibatchPart {
 public:
  // `staging`: host_staging(...).batch bytes.
  MinibatchPart(transfer::Link& link, LayerRunner& runner, int microbatches, device::BufferView staging);

  int microbatches() const { return microbatches_; }
  // Of one microbatch, [rows]. May be written when no pass is under way.
  std::span<std::int32_t> tokens(int microbatch) { return ids(2 * microbatch); }
  std::span<std::int32_t> targets(int microbatch) { return ids(2 * microbatch + 1); }

  // Enqueues the copy to the device.
  void upload();
  // Brings the losses to the host. Waits until the pass is done.
  void fetch_losses();
  // In nats; of the last fetch_losses().
  double loss(int microbatch) const { return result(microbatch, 0); }
  // What Model::results_bytes() lists.
  double result(int microbatch, int index) const;
  // Enqueues the copy of logits to the host, [first_token, ...) of the vocabulary.
  void take_logits(std::int64_t first_token, device::BufferView logits);
  // All of them, as fp32. Waits.
  void logits(std::span<float> values);

 private:
  std::span<std::int32_t> ids(int index);
  device::BufferView results(Bytes begin, Bytes bytes) const;
  void wait();

  transfer::Link& link_;
  LayerRunner& runner_;
  const int microbatches_;
  const Bytes id_bytes_;  // of the tokens, or of the targets, of one microbatch
  const device::BufferView staging_;
  const std::unique_ptr<device::Event> done_;
};

// The whole minibatch, whichever devices its parts are for. Thread-bound: the thread that calls the engine.
class Minibatch {
 public:
  // Parts in the order of devices, equally large; they outlive this object.
  explicit Minibatch(std::vector<MinibatchPart*> parts) : parts_(std::move(parts)) {}

  int microbatches() const { return static_cast<int>(parts_.size()) * parts_[0]->microbatches(); }
  // Of one microbatch, [rows]. May be written when no pass is under way.
  std::span<std::int32_t> tokens(int microbatch) { return part(microbatch).tokens(place(microbatch)); }
  std::span<std::int32_t> targets(int microbatch) { return part(microbatch).targets(place(microbatch)); }
  // Fills tokens and targets with numbers below `vocabulary`, the same ones each time: for measurements.
  void draw(std::int64_t vocabulary);
  // Targets at or above 0 in the whole minibatch.
  std::int64_t predicted();
  // Sum of the losses that the parts have fetched, in the order of microbatches: the same for any number of devices.
  double loss_sum() const;
  // Relative to the streams, how far the rebuilt ones have drifted (Model::drifts), in the root mean square.
  double drift() const;

 private:
  MinibatchPart& part(int microbatch) const {
    return *parts_[static_cast<std::size_t>(microbatch / parts_[0]->microbatches())];
  }
  int place(int microbatch) const { return microbatch % parts_[0]->microbatches(); }

  const std::vector<MinibatchPart*> parts_;
};

}  // namespace l2l::runtime
