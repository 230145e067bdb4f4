#include "device/kernels/factories.h"
#include "device/kernels/kept_sums.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class SumOfDims final : public Kernel {
 public:
  SumOfDims(const OpView& op) : sums_(op.attributes), factor_(static_cast<double>(op.attributes.factor)) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  Bytes workspace(int) const override { return sums_.workspace(); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    T* const y = as<T>(operands[1]);
    sums_.run(as<T>(operands[0]), workspace, workers,
              [y, factor = factor_](std::int64_t first, const double* sums, std::int64_t count) {
                for (std::int64_t i = 0; i < count; ++i) {
                  y[first + i] = narrow<T>(static_cast<float>(factor * sums[i]));
                }
              });
  }

 private:
  KeptSums<T> sums_;
  double factor_;
};

}  // namespace

const Factory make_sum = make_for_output<SumOfDims>;

}  // namespace l2l::device::kernels
