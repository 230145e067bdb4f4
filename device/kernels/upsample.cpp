#include "device/kernels/upsample.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Upsample final : public Kernel {
 public:
  Upsample(const OpView& op) : image_(op.attributes) { op.require_dtype(op.output(0).dtype, {0}); }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t points = image_.height.points(), across = image_.width.points();
    const std::int64_t line = image_.width.extent * image_.channels;
    for_rows(image_.samples * points, across * image_.channels * 4, workers, [&](std::int64_t row) {
      const Interpolation y = image_.height.at(static_cast<std::int32_t>(row % points));
      const T* const image = as<T>(operands[0]) + row / points * image_.height.extent * line;
      interpolate(image + y.first * line, image + y.second * line, y.weight,
                  as<T>(operands[1]) + row * across * image_.channels);
    });
  }

 private:
  // A row between two of the image.
  void interpolate(const T* above, const T* below, float weight, T* y) const {
    const std::int64_t channels = image_.channels;
    for (std::int32_t point = 0; point < image_.width.points(); ++point, y += channels) {
      const Interpolation x = image_.width.at(point);
      const T *const a = above + x.first * channels, *const b = above + x.second * channels;
      const T *const c = below + x.first * channels, *const d = below + x.second * channels;
      const float right = x.weight;
#pragma omp simd
      for (std::int64_t k = 0; k < channels; ++k) {
        const float upper = widen(a[k]) * (1 - right) + widen(b[k]) * right;
        const float lower = widen(c[k]) * (1 - right) + widen(d[k]) * right;
        y[k] = narrow<T>(upper * (1 - weight) + lower * weight);
      }
    }
  }

  const Upsampling image_;
};

}  // namespace

const Factory make_upsample = make_for_output<Upsample>;

}  // namespace l2l::device::kernels
