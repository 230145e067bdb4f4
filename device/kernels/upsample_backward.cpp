#include "device/kernels/factories.h"
#include "device/kernels/upsample.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class UpsampleBackward final : public Kernel {
 public:
  UpsampleBackward(const OpView& op) : image_(op.attributes), rows_{Windows(op.attributes)} {
    op.require_dtype(op.output(0).dtype, {0});
  }

  Bytes workspace(int threads) const override { return rows_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t channels = image_.channels, across = image_.width.points() * channels;
    rows_.write(as<T>(operands[1]), 1, workspace, workers, [&](std::int64_t sample, std::int64_t y, float* line) {
      const T* const dy = as<T>(operands[0]) + sample * image_.height.points() * across;
      image_.height.for_points_of(static_cast<std::int32_t>(y), [&](std::int32_t row, float of_row) {
        for (std::int32_t x = 0; x < image_.width.extent; ++x) {
          image_.width.for_points_of(x, [&](std::int32_t column, float part) {
            add_scaled(dy + row * across + column * channels, of_row * part, line + x * channels);
          });
        }
      });
    });
  }

 private:
  void add_scaled(const T* dy, float factor, float* sums) const {
#pragma omp simd
    for (std::int64_t k = 0; k < image_.channels; ++k) sums[k] += factor * widen(dy[k]);
  }

  const Upsampling image_;
  const ImageRows<T> rows_;
};

}  // namespace

const Factory make_upsample_backward = make_for_output<UpsampleBackward>;

}  // namespace l2l::device::kernels
