#include "device/host/host_executable.h"

#include <utility>

#include "l2l/errors.h"

namespace l2l::device {
namespace {

constexpr std::size_t kMaxOperands = 16;

void check_launches(const Program& program, std::size_t kernels) {
  if (program.launches.size() != kernels) throw Error(program.graph.name + ": launches and ops differ in number");
  for (const Launch& launch : program.launches) {
    if (launch.operands.size() > kMaxOperands) {
      throw Error(program.graph.name + ": " + std::string(name_of(launch.op.kind)) + " has more than 16 operands");
    }
  }
}

std::byte* address(const Bindings& bindings, const Operand& operand) {
  return bindings[operand.region].data + operand.offset;
}

}  // namespace

HostExecutable::HostExecutable(Program program, std::vector<std::unique_ptr<kernels::Kernel>> kernels)
    : Executable(std::move(program)), kernels_(std::move(kernels)) {
  check_launches(program_, kernels_.size());
  for (std::size_t i = 0; i < region_bytes_.size(); ++i) {
    const auto region = static_cast<graph::Region>(i);
    region_bytes_[i] = region == graph::Region::scratch ? program_.scratch_bytes : program_.graph.region_bytes(region);
  }
}

void HostExecutable::check(const Bindings& bindings) const {
  for (std::size_t i = 0; i < region_bytes_.size(); ++i) {
    if (bindings.regions[i].size >= region_bytes_[i]) continue;
    throw Error(program_.graph.name + ": region " + std::string(name_of(static_cast<graph::Region>(i))) + " needs " +
                std::to_string(region_bytes_[i]) + " bytes, " + std::to_string(bindings.regions[i].size) +
                " are bound");
  }
}

void HostExecutable::run(const Bindings& bindings, const LaunchParameters& parameters, Workers& workers) const {
  std::array<std::byte*, kMaxOperands> operands{};
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const Launch& launch = program_.launches[i];
    const std::size_t count = launch.operands.size();
    for (std::size_t k = 0; k < count; ++k) operands[k] = address(bindings, launch.operands[k]);
    std::byte* workspace = launch.workspace_bytes > 0 ? address(bindings, launch.workspace) : nullptr;
    kernels_[i]->run(std::span(operands.data(), count), workspace, parameters, workers);
  }
}

std::unique_ptr<HostExecutable> compile_for_host(const graph::Graph& graph, int threads) {
  std::vector<std::unique_ptr<kernels::Kernel>> kernels;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) kernels.push_back(kernels::make_kernel(graph, i));
  Program program =
      plan_program(graph, [&](const graph::Graph&, std::size_t i) { return kernels[i]->workspace(threads); });
  return std::make_unique<HostExecutable>(std::move(program), std::move(kernels));
}

}  // namespace l2l::device
