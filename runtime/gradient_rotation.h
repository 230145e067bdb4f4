// Gradients of layer inputs, passed from each layer to the one before it. n microbatches need n + 1 buffers: each
// writes to the buffer that the microbatch before it has just read. All uses are on one stream, so no events are
// needed.
#pragma once

#include <vector>

#include "device/device.h"

namespace l2l::runtime {

// Thread-bound.
class GradientRotation {
 public:
  explicit GradientRotation(std::vector<device::BufferView> buffers) : buffers_(std::move(buffers)) {}

  // dL/d output of the current layer.
  device::BufferView incoming(int microbatch) const { return at(microbatch + 1); }
  // dL/d input of the current layer, which incoming() is in the next one. Shares its buffer with
  // incoming(microbatch - 1).
  device::BufferView outgoing(int microbatch) const { return at(microbatch); }
  // Begins as the first time, so that every step's programs find the same memory; nothing that is held is needed any
  // more.
  void restart() { base_ = 0; }
  // Goes on to the next layer of the backward pass: what was outgoing becomes incoming.
  void advance() { base_ = (base_ + buffers_.size() - 1) % buffers_.size(); }

 private:
  device::BufferView at(int place) const {
    return buffers_[(base_ + static_cast<std::size_t>(place)) % buffers_.size()];
  }

  const std::vector<device::BufferView> buffers_;
  std::size_t base_ = 0;
};

}  // namespace l2l::runtime
