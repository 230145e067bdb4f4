#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

// In ascending order of row, as linear_cross_entropy sums.
class CrossEntropy final : public Kernel {
 public:
  CrossEntropy(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(input(graph, op, 0).shape[0]), numbers_(input(graph, op, 0).shape[1]) {
    require_dtype(graph, op, DType::f64, {0, 2});
    require_dtype(graph, op, DType::i32, {1});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers&) const override {
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

std::unique_ptr<Kernel> make_cross_entropy(const compiler::Graph& graph, const compiler::Op& op) {
  return std::make_unique<CrossEntropy>(graph, op);
}

}  // namespace l2l::device::kernels
