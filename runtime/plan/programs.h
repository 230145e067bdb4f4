// A model's graphs, compiled for a device: what each layer type runs in the forward and in the backward pass.
// Immutable; which layer has which follows the model.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "models/model.h"

namespace l2l::runtime {

struct LayerPrograms {
  std::unique_ptr<device::Executable> forward;   // of the head: loss only (evaluation)
  std::unique_ptr<device::Executable> backward;  // of a head at once: forward straight into backward
  // Accumulators -> gradients in the dtype that crosses the link; of split layers, those of parameters that several
  // devices have are summed over these first. Else null.
  std::unique_ptr<device::Executable> drain;
  std::unique_ptr<device::Executable> add;     // accumulators += those of another part, where a device has several
  std::unique_ptr<device::Executable> sum;     // over devices, of a slice of the gradients that they drained; else null
  std::unique_ptr<device::Executable> logits;  // of the head's layers, else null
};

class Programs {
 public:
  // `parts`: of the minibatch, on each device. `summing`: devices that each sum a slice of the gradients of all; 1:
  // none.
  Programs(device::Device& device, const models::Model& model, DType gradients, int parts, int summing);

  const LayerPrograms& of(int layer) const {
    return types_[static_cast<std::size_t>(model_.type_of[static_cast<std::size_t>(layer)])];
  }
  // By type of layer.
  const std::vector<LayerPrograms>& types() const { return types_; }
  // 0 where there is none.
  static Bytes scratch_bytes(const std::unique_ptr<device::Executable>& program) {
    return program ? program->program().scratch_bytes : 0;
  }

 private:
  const models::Model& model_;
  std::vector<LayerPrograms> types_;
};

// For each device, of which `model_of(i)` is the model; each takes the kernels that those before it have chosen by
// time.
std::vector<std::unique_ptr<Programs>> compile(const std::vector<std::shared_ptr<device::Device>>& devices,
                                               const std::function<const models::Model&(std::size_t)>& model_of,
                                               DType gradients, int parts, int summing);
// Of one model.
std::vector<std::unique_ptr<Programs>> compile(const std::vector<std::shared_ptr<device::Device>>& devices,
                                               const models::Model& model, DType gradients, int parts, int summing);

}  // namespace l2l::runtime
