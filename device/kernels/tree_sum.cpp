#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tree_of_rows.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class TreeSum final : public Kernel {
 public:
  TreeSum(const OpView& op) : rows_(op.input(0).shape[0]), columns_(op.input(0).shape[1]) {
    op.require_dtype(DType::f32, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* const x = as<const T>(operands[0]);
    float* const y = as<float>(operands[1]);
    for_blocks(columns_, workers, [=, this](std::int64_t begin, std::int64_t end) {
      const auto row_of = [=, this](std::int64_t row) { return x + row * columns_ + begin; };
      add_tree_of_rows(rows_, row_of, y + begin, end - begin);
    });
  }

 private:
  std::int64_t rows_, columns_;
};

}  // namespace

const Factory make_tree_sum = make_for_input<TreeSum>;

}  // namespace l2l::device::kernels
