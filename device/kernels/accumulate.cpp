#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

class Accumulate final : public Kernel {
 public:
  Accumulate(const OpView& op) : elements_(op.output(0).shape.elements()) {}

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const float* const x = as<const float>(operands[0]);
    float* const y = as<float>(operands[1]);
    for_blocks(elements_, workers, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) y[i] += x[i];
    });
  }

 private:
  std::int64_t elements_;
};

}  // namespace

const Factory make_accumulate = make_one<Accumulate>;

}  // namespace l2l::device::kernels
