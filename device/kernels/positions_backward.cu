#include "device/kernels/positions.cuh"

#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::input(graph, op, 0).shape.elements()),
        table_(op.attributes.sequence * kernels::input(graph, op, 0).shape[1]),
        has_places_(op.inputs.size() > 1),
        places_(kernels::input(graph, op, 0).shape[0], kernels::input(graph, op, 0).shape[1],
                kernels::output(graph, op, 0).shape[0]) {}

  Bytes workspace() const override { return has_places_ ? places_.workspace() : 0; }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    if (has_places_) {
      return places_.enqueue(kernels::as<std::int32_t>(operands[1]), kernels::as<T>(operands[0]),
                             kernels::as<float>(operands[2]), parameters, workspace, stream);
    }
    launch_positions_backward(context_, kernels::as<T>(operands[0]), elements_, table_, kernels::as<float>(operands[1]),
                              stream);
  }

 private:
  Context context_;
  std::int64_t elements_, table_;
  bool has_places_;  // a row of positions for each row
  TableGradientSum<T, false> places_;
};

}  // namespace

std::unique_ptr<Kernel> make_positions_backward(const Context& context, const compiler::Graph& graph,
                                                const compiler::Op& op) {
  return make_for<PositionsBackward, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
