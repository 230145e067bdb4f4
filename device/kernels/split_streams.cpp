#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename Stream, typename T>
class SplitStreams : public Kernel {
 public:
  SplitStreams(const OpView& op) : elements_(op.output(0).shape.elements()) {}

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* x = as<T>(operands[0]);
    Stream* a = as<Stream>(operands[1]);
    Stream* b = operands.size() > 2 ? as<Stream>(operands[2]) : a;
    for_blocks(elements_, workers, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] = narrow<Stream>(widen(x[i]));
    });
  }

 private:
  std::int64_t elements_;
};

// A gradient of the compute type.
template <typename T>
class SplitGradient final : public SplitStreams<T, T> {
  using SplitStreams<T, T>::SplitStreams;
};

}  // namespace

const Factory make_split_streams = [](const OpView& op) {
  const bool gradient = op.output(0).dtype == op.input(0).dtype;
  return (gradient ? make_for_input<SplitGradient> : make_for_stream<SplitStreams, 1, 0>)(op);
};

}  // namespace l2l::device::kernels
