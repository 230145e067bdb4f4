#include "device/kernels/common/tensor_exchange.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/tree_of_rows.cuh"

namespace l2l::device::cuda {
namespace {

// Each device gets its rows of all devices' x, and adds them.
template <typename T>
class ReduceScatterRows final : public Kernel {
 public:
  ReduceScatterRows(const Context& context, const OpView& op)
      : context_(context), exchange_(op), bytes_(op.output(0).bytes()), sum_(op, exchange_.members()) {
    require_groups<T>(sum_.elements, sum_.columns);
  }

  bool capturable() const override { return exchange_.alone(); }
  Bytes workspace() const override { return exchange_.alone() ? 0 : static_cast<Bytes>(exchange_.members()) * bytes_; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    std::byte* const rows = exchange_.alone() ? operands[0] : workspace;
    if (!exchange_.alone()) exchange_.all_to_all(operands[0], rows, bytes_, stream);
    Stored<TreeOfRowsBody<T, T>> sum = sum_;
    sum.x = as<const T>(rows);
    sum.y = as<T>(operands[1]);
    launch_elementwise_rows<T>("reduce_scatter_rows", context_, sum.elements, sum.columns, sum, stream);
  }

 private:
  Context context_;
  TensorExchange exchange_;
  Bytes bytes_;                       // of a device's rows
  Stored<TreeOfRowsBody<T, T>> sum_;  // without addresses
};

}  // namespace

const Factory make_reduce_scatter_rows = make_for_output<ReduceScatterRows>;

}  // namespace l2l::device::cuda
