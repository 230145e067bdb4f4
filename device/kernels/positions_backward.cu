#include "device/kernels/positions.cuh"

#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const Context& context, const OpView& op)
      : context_(context),
        elements_(op.input(0).shape.elements()),
        table_(op.attributes.sequence * op.input(0).shape[1]),
        has_places_(op.inputs.size() > 1),
        places_(op.input(0).shape[0], op.input(0).shape[1], op.output(0).shape[0]) {}

  Bytes workspace() const override { return has_places_ ? places_.workspace() : 0; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    if (has_places_) {
      return places_.enqueue(as<std::int32_t>(operands[1]), as<T>(operands[0]), as<float>(operands[2]), parameters,
                             workspace, stream);
    }
    launch_positions_backward(context_, as<T>(operands[0]), elements_, table_, as<float>(operands[1]), stream);
  }

 private:
  Context context_;
  std::int64_t elements_, table_;
  bool has_places_;  // a row of positions for each row
  TableGradientSum<T, false> places_;
};

}  // namespace

const Factory make_positions_backward = make_for_input<PositionsBackward>;

}  // namespace l2l::device::cuda
