#include "device/kernels/positions.cuh"

#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::input(graph, op, 0).shape.elements()),
        table_(op.attributes.sequence * kernels::input(graph, op, 0).shape[1]) {}

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    launch_positions_backward(context_, kernels::as<T>(operands[0]), elements_, table_, kernels::as<float>(operands[1]),
                              stream);
  }

 private:
  Context context_;
  std::int64_t elements_, table_;
};

}  // namespace

std::unique_ptr<Kernel> make_positions_backward(const Context& context, const compiler::Graph& graph,
                                                const compiler::Op& op) {
  return make_for<PositionsBackward, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
