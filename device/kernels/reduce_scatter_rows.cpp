#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tensor_exchange.h"
#include "device/kernels/tree_of_rows.h"

namespace l2l::device::kernels {
namespace {

// When it returns, the others have read the device's x.
template <typename T>
class ReduceScatterRows final : public Kernel {
 public:
  ReduceScatterRows(const OpView& op)
      : exchange_(op),
        elements_(op.output(0).shape.elements()),
        first_(op.attributes.shard.index * op.output(0).shape.elements()) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    T* const y = as<T>(operands[1]);
    exchange_.run(operands[0], [&](std::span<const std::byte* const> given) {
      for_blocks(elements_, workers, [&](std::int64_t begin, std::int64_t end) {
        const auto row_of = [&](std::int64_t device) {
          return reinterpret_cast<const T*>(given[static_cast<std::size_t>(device)]) + first_ + begin;
        };
        add_tree_of_rows(static_cast<std::int64_t>(given.size()), row_of, y + begin, end - begin);
      });
    });
  }

 private:
  TensorExchange exchange_;
  std::int64_t elements_, first_;
};

}  // namespace

const Factory make_reduce_scatter_rows = make_for_output<ReduceScatterRows>;

}  // namespace l2l::device::kernels
