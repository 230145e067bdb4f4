// One minibatch on its way in (tokens, targets) and out (losses): page-locked staging on the host beside the buffers on
// the device.
#pragma once

#include <span>

#include "runtime/layer_runner.h"
#include "transfer/link.h"

namespace l2l::runtime {

// Thread-bound: the relay thread.
class Minibatch {
 public:
  // `staging`: host_staging(...).batch bytes.
  Minibatch(transfer::Link& link, LayerRunner& runner, int microbatches, device::BufferView staging);

  int microbatches() const { return microbatches_; }
  // Of one microbatch, [rows]. May be written when no pass is under way.
  std::span<std::int32_t> tokens(int microbatch) { return ids(2 * microbatch); }
  std::span<std::int32_t> targets(int microbatch) { return ids(2 * microbatch + 1); }
  // Targets at or above 0 in the whole minibatch.
  std::int64_t predicted();

  // Enqueues the copy to the device.
  void upload();
  // Sum of the losses of all microbatches, in order, in nats. Waits until the pass is done.
  double loss_sum();
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

}  // namespace l2l::runtime
