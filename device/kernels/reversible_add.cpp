#include "core/fault_point.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename Stream, typename T>
class ReversibleAdd final : public Kernel {
 public:
  ReversibleAdd(const OpView& op) : elements_(op.output(0).shape.elements()), inverse_(op.attributes.inverse) {}

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const Stream* x = as<Stream>(operands[0]);
    const T* b = as<T>(operands[1]);
    Stream* y = as<Stream>(operands[2]);
    const float sign = inverse_ ? -1.0f : 1.0f;
    for_blocks(elements_, workers, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) y[i] = reversible_add(x[i], sign * widen(b[i]));
    });
    if (inverse_ && fault_point("streams.rebuilt_otherwise")) y[elements_ / 2] += Stream{1};
  }

 private:
  std::int64_t elements_;
  bool inverse_;
};

}  // namespace

const Factory make_reversible_add = make_for_stream<ReversibleAdd, 0, 1>;

}  // namespace l2l::device::kernels
