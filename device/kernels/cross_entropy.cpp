#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

// In ascending order of row, as linear_cross_entropy sums.
class CrossEntropy final : public Kernel {
 public:
  CrossEntropy(const OpView& op) : rows_(op.input(0).shape[0]), numbers_(op.input(0).shape[1]) {
    op.require_dtype(DType::f64, {0, 2});
    op.require_dtype(DType::i32, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers&) const override {
    const double* statistics = as<double>(operands[0]);
    const std::int32_t* targets = as<std::int32_t>(operands[1]);
    double sum = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
      if (targets[row] >= 0) sum += load_state(statistics + row * numbers_).loss();
    }
    *as<double>(operands[2]) = sum;
  }

 private:
  std::int64_t rows_, numbers_;
};

}  // namespace

const Factory make_cross_entropy = make_one<CrossEntropy>;

}  // namespace l2l::device::kernels
