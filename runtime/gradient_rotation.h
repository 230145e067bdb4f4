// Gradients of layer inputs, handed from layer to layer within n + 1 buffers for n microbatches: the buffer that one
// microbatch has just read is where the next one writes. All on one stream, so no events.
#pragma once

#include <vector>

#include "device/device.h"

namespace l2l::runtime {

// Thread-bound.
class GradientRotation {
 public:
  explicit GradientRotation(std::vector<device::BufferView> buffers) : buffers_(std::move(buffers)) {}

  // dL/d output of the layer, from the layer above.
  device::BufferView incoming(int microbatch) const { return at(microbatch + 1); }
  // dL/d input of the layer, for the layer below. May be the buffer of incoming(microbatch - 1).
  device::BufferView outgoing(int microbatch) const { return at(microbatch); }
  // Turns to the next layer below: what was outgoing becomes incoming.
  void advance() { base_ = (base_ + buffers_.size() - 1) % buffers_.size(); }

 private:
  device::BufferView at(int place) const {
    return buffers_[(base_ + static_cast<std::size_t>(place)) % buffers_.size()];
  }

  const std::vector<device::BufferView> buffers_;
  std::size_t base_ = 0;
};

}  // namespace l2l::runtime
