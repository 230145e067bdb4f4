#include <algorithm>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Lookup final : public Kernel {
 public:
  Lookup(const OpView& op)
      : rows_(op.output(0).shape[0]), columns_(op.output(0).shape[1]), table_rows_(op.input(1).shape[0]) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(op.output(0).dtype, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* const indices = as<std::int32_t>(operands[0]);
    for_rows(rows_, columns_, workers, [&](std::int64_t row) {
      const std::int64_t index = checked_token("lookup", indices[row], row, table_rows_);
      std::copy_n(as<T>(operands[1]) + index * columns_, columns_, as<T>(operands[2]) + row * columns_);
    });
  }

 private:
  std::int64_t rows_, columns_, table_rows_;
};

}  // namespace

const Factory make_lookup = make_for_output<Lookup>;

}  // namespace l2l::device::kernels
