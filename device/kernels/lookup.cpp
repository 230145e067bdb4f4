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
      : rows_(op.output(0).shape[0]),
        columns_(op.output(0).shape[1]),
        table_rows_(op.input(1).shape[0]),
        first_(op.attributes.first),
        vocabulary_(op.attributes.shard.count > 1 ? op.attributes.vocabulary : table_rows_) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(op.output(0).dtype, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* const indices = as<std::int32_t>(operands[0]);
    for_rows(rows_, columns_, workers, [&](std::int64_t row) {
      const std::int64_t index = checked_token("lookup", indices[row], row, vocabulary_) - first_;
      T* const y = as<T>(operands[2]) + row * columns_;
      if (index < 0 || index >= table_rows_) {  // another device's
        std::fill_n(y, columns_, T{});
      } else {
        std::copy_n(as<T>(operands[1]) + index * columns_, columns_, y);
      }
    });
  }

 private:
  std::int64_t rows_, columns_, table_rows_, first_, vocabulary_;
};

}  // namespace

const Factory make_lookup = make_for_output<Lookup>;

}  // namespace l2l::device::kernels
