#include "device/kernels/depthwise.h"

#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Depthwise final : public Kernel {
 public:
  Depthwise(const OpView& op) : windows_(op.attributes) { op.require_dtype(op.output(0).dtype, {0, 1}); }

  Bytes workspace(int) const override {
    return static_cast<Bytes>(windows_.elements() * windows_.channels) * sizeof(float);
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t rows = windows_.samples * windows_.rows, channels = windows_.channels;
    float* const weights = as<float>(workspace);
    weights_by_element(as<T>(operands[1]), windows_, weights);
    for_rows(rows, windows_.columns * windows_.elements() * channels, workers, [&](std::int64_t row) {
      const T* const image = as<T>(operands[0]) + row / windows_.rows * windows_.height * windows_.width * channels;
      T* const y = as<T>(operands[2]) + row * windows_.columns * channels;
      for (std::int64_t column = 0; column < windows_.columns; ++column) {
        for (std::int64_t first = 0; first < channels; first += kDepthwiseChannels) {
          weigh(image + first, weights + first, row % windows_.rows, column,
                std::min(kDepthwiseChannels, channels - first), y + column * channels + first);
        }
      }
    });
  }

 private:
  // `count` channels of the window at `row`, `column`.
  void weigh(const T* image, const float* weights, std::int64_t row, std::int64_t column, std::int64_t count,
             T* y) const {
    const Windows::Inside rows = windows_.inside(0, row), columns = windows_.inside(1, column);
    const std::int64_t top = windows_.first(0, row), left = windows_.first(1, column), channels = windows_.channels;
    float sums[kDepthwiseChannels] = {};
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const T* const line = image + (top + i * windows_.dilation(0)) * windows_.width * channels;
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        const T* const x = line + (left + j * windows_.dilation(1)) * channels;
        const float* const w = weights + (i * windows_.size(1) + j) * channels;
#pragma omp simd
        for (std::int64_t k = 0; k < count; ++k) sums[k] += widen(x[k]) * w[k];
      }
    }
    narrow_row(sums, y, count);
  }

  Windows windows_;
};

}  // namespace

const Factory make_depthwise = make_for_output<Depthwise>;

}  // namespace l2l::device::kernels
