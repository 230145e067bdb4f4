// A program with its kernels.
#pragma once

#include <memory>
#include <vector>

#include "core/workers.h"
#include "device/device.h"
#include "device/kernels/kernel.h"
#include "device/tensor_group.h"

namespace l2l::device {

// Immutable; run() by one thread at a time.
class HostExecutable : public Executable {
 public:
  HostExecutable(compiler::Program program, std::vector<std::unique_ptr<kernels::Kernel>> kernels);

  void run(const Bindings& bindings, const LaunchParameters& parameters, Workers& workers) const;

 private:
  std::vector<std::unique_ptr<kernels::Kernel>> kernels_;  // one per launch
};

// Throws BadInput when an op has no kernel. `threads`: of the pool that will run it; `tensor`: of its device.
std::unique_ptr<HostExecutable> compile_for_host(const compiler::Graph& graph, int threads,
                                                 const TensorMember& tensor = {});

}  // namespace l2l::device
