#include "device/kernels/positions.cuh"

#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const Context& context, const OpView& op)
      : context_(context),
        elements_(op.input(0).shape.elements()),
        table_(op.attributes.sequence * op.input(0).shape[1]) {}

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    launch_positions_backward(context_, as<T>(operands[0]), elements_, table_, as<float>(operands[1]), stream);
  }

 private:
  Context context_;
  std::int64_t elements_, table_;
};

}  // namespace

const Factory make_positions_backward = make_for_input<PositionsBackward>;

}  // namespace l2l::device::cuda
