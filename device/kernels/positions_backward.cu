#include "device/kernels/cuda_factories.h"
#include "device/kernels/positions.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const Context&, const OpView& op) : positions_(op, 0) {}

  Bytes workspace() const override { return positions_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    positions_.enqueue(operands, workspace, parameters, stream);
  }

 private:
  PositionsGradient<T> positions_;
};

}  // namespace

const Factory make_positions_backward = make_for_input<PositionsBackward>;

}  // namespace l2l::device::cuda
