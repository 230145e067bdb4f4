#include <algorithm>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/gather.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Gather final : public Kernel {
 public:
  Gather(const OpView& op) : samples_(op), columns_(op.output(0).shape[1]) {
    op.require_dtype(op.output(0).dtype, {0});
    op.require_dtype(DType::i32, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* const indices = as<std::int32_t>(operands[1]);
    for_rows(samples_.samples * samples_.taken, columns_, workers, [&](std::int64_t row) {
      const std::int64_t from = row / samples_.taken * samples_.rows + samples_.checked("gather", indices, row);
      std::copy_n(as<T>(operands[0]) + from * columns_, columns_, as<T>(operands[2]) + row * columns_);
    });
  }

 private:
  GatheredSamples samples_;
  std::int64_t columns_;
};

}  // namespace

const Factory make_gather = make_for_output<Gather>;

}  // namespace l2l::device::kernels
