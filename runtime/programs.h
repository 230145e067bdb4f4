// A model's graphs, compiled for a device: what each layer type runs on its visits. Immutable.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "models/model.h"

namespace l2l::runtime {

struct LayerPrograms {
  std::unique_ptr<device::Executable> forward;   // of the head: loss only (evaluation)
  std::unique_ptr<device::Executable> backward;  // of a head at once: forward straight into backward
  std::unique_ptr<device::Executable> drain;     // accumulators -> gradients in the dtype that crosses the link
  std::unique_ptr<device::Executable> logits;    // of the head's layers, else null
};

class Programs {
 public:
  Programs(device::Device& device, const models::Model& model, DType gradients);

  const LayerPrograms& of(int layer) const {
    return types_[static_cast<std::size_t>(model_.type_of[static_cast<std::size_t>(layer)])];
  }
  // Of the largest program: they run one after the other.
  Bytes scratch_bytes() const { return scratch_bytes_; }

 private:
  std::unique_ptr<device::Executable> compile(device::Device& device, const device::graph::Graph& graph);

  const models::Model& model_;
  std::vector<LayerPrograms> types_;
  Bytes scratch_bytes_ = 0;
};

}  // namespace l2l::runtime
