#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename Stream, typename T>
class SplitStreams : public Kernel {
 public:
  SplitStreams(const compiler::Graph& graph, const compiler::Op& op)
      : elements_(output(graph, op, 0).shape.elements()) {}

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* x = as<T>(operands[0]);
    Stream* a = as<Stream>(operands[1]);
    Stream* b = as<Stream>(operands[2]);
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

std::unique_ptr<Kernel> make_split_streams(const compiler::Graph& graph, const compiler::Op& op) {
  const DType stream = output(graph, op, 0).dtype, compute = input(graph, op, 0).dtype;
  if (stream == compute) return make_for_dtype<SplitGradient>(graph, op, compute);
  return make_for_stream<SplitStreams>(graph, op, stream, compute);
}

}  // namespace l2l::device::kernels
