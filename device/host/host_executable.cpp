#include "device/host/host_executable.h"

#include <utility>

namespace l2l::device {

HostExecutable::HostExecutable(compiler::Program program, std::vector<std::unique_ptr<kernels::Kernel>> kernels)
    : Executable(std::move(program)), kernels_(std::move(kernels)) {
  require_kernels(kernels_.size());
}

void HostExecutable::run(const Bindings& bindings, const LaunchParameters& parameters, Workers& workers) const {
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const Arguments arguments = arguments_of(program_.launches[i], bindings);
    kernels_[i]->run(arguments.operands(), arguments.workspace, parameters, workers);
  }
}

std::unique_ptr<HostExecutable> compile_for_host(const compiler::Graph& graph, int threads,
                                                 const TensorMember& tensor) {
  std::vector<std::unique_ptr<kernels::Kernel>> kernels;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    kernels.push_back(kernels::make_kernel(graph, i, tensor));
    kernels.back()->prepare(threads);
  }
  compiler::Program program = compiler::plan_program(
      graph, [&](const compiler::Graph&, std::size_t i) { return kernels[i]->workspace(threads); });
  return std::make_unique<HostExecutable>(std::move(program), std::move(kernels));
}

}  // namespace l2l::device
