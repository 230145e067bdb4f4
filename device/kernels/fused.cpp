#include <algorithm>
#include <array>
#include <vector>

#include "compiler/fusion/unfuse.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

constexpr std::size_t kMostOperands = 16;

// A fused op is what its parts are, one after the other; values between them lie in the workspace.
class Fused final : public Kernel {
 public:
  Fused(const OpView& op)
      : parts_(compiler::unfused(op.graph, op.op)), operands_(op.inputs.size() + op.outputs.size()) {
    for (std::size_t i = 0; i < parts_.ops.size(); ++i) kernels_.push_back(make_kernel(parts_, i, *op.tensor));
    if (parts_.values.size() > kMostOperands) throw Error(parts_.name + " has more than 16 values");
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    std::array<std::byte*, kMostOperands> values{};
    cut(cutter, values);
    Bytes most = 0;
    for (const auto& kernel : kernels_) most = std::max(most, kernel->workspace(threads));
    return cutter.used() + most;
  }

  void prepare(int threads) override {
    for (const auto& kernel : kernels_) kernel->prepare(threads);
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    std::array<std::byte*, kMostOperands> values{};
    std::copy(operands.begin(), operands.end(), values.begin());
    cut(cutter, values);
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      const compiler::Op& op = parts_.ops[i];
      std::array<std::byte*, kMostOperands> own{};
      std::size_t count = 0;
      for (const std::vector<compiler::ValueId>* ids : {&op.inputs, &op.outputs}) {
        for (const compiler::ValueId id : *ids) own[count++] = values[static_cast<std::size_t>(id)];
      }
      kernels_[i]->run(std::span(own.data(), count), workspace + cutter.used(), parameters, workers);
    }
  }

 private:
  // Room for the values that are no operands.
  void cut(WorkspaceCutter& cutter, std::array<std::byte*, kMostOperands>& values) const {
    for (std::size_t i = operands_; i < parts_.values.size(); ++i) {
      values[i] = cutter.take<std::byte>(static_cast<std::int64_t>(parts_.values[i].bytes()));
    }
  }

  compiler::Graph parts_;
  std::size_t operands_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

const Factory make_fused = make_one<Fused>;

}  // namespace l2l::device::kernels
