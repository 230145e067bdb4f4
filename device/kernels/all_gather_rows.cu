#include "device/kernels/common/check.h"
#include "device/kernels/common/tensor_exchange.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

class AllGatherRows final : public Kernel {
 public:
  AllGatherRows(const Context&, const OpView& op) : exchange_(op), bytes_(op.input(0).bytes()) {}

  bool capturable() const override { return exchange_.alone(); }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    if (!exchange_.alone()) return exchange_.all_gather(operands[0], operands[1], bytes_, stream);
    check(cudaMemcpyAsync(operands[1], operands[0], bytes_, cudaMemcpyDeviceToDevice, stream), "all_gather_rows");
  }

 private:
  TensorExchange exchange_;
  Bytes bytes_;  // of each device's rows
};

}  // namespace

const Factory make_all_gather_rows = make_one<AllGatherRows>;

}  // namespace l2l::device::cuda
