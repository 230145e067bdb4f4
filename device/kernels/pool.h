// Pools on the host: one value of what a window covers, in each channel.
#pragma once

#include <algorithm>

#include "device/kernels/windows.h"

namespace l2l::device::kernels {

inline constexpr std::int64_t kPoolChannels = 64;  // at a time

// Reduction: the value before the first element, a function that takes one in, and a function of the result and of the
// number of elements of a window. Elements outside of the image are left out.
template <typename Reduction>
struct Pool {
  template <typename T>
  class OfType final : public Kernel {
   public:
    OfType(const OpView& op) : windows_(op.attributes) { op.require_dtype(op.output(0).dtype, {0}); }

    void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
      const std::int64_t rows = windows_.samples * windows_.rows, channels = windows_.channels;
      for_rows(rows, windows_.columns * windows_.elements() * channels, workers, [&](std::int64_t row) {
        const T* const image = as<T>(operands[0]) + row / windows_.rows * windows_.height * windows_.width * channels;
        T* const y = as<T>(operands[1]) + row * windows_.columns * channels;
        for (std::int64_t column = 0; column < windows_.columns; ++column) {
          for (std::int64_t first = 0; first < channels; first += kPoolChannels) {
            reduce(image + first, row % windows_.rows, column, std::min(kPoolChannels, channels - first),
                   y + column * channels + first);
          }
        }
      });
    }

   private:
    // `count` channels of the window at `row`, `column`.
    void reduce(const T* image, std::int64_t row, std::int64_t column, std::int64_t count, T* y) const {
      const Windows::Inside rows = windows_.inside(0, row), columns = windows_.inside(1, column);
      const std::int64_t top = windows_.first(0, row), left = windows_.first(1, column);
      float result[kPoolChannels];
      std::fill_n(result, count, Reduction::kFirst);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const T* const line = image + (top + i * windows_.dilation(0)) * windows_.width * windows_.channels;
        for (std::int64_t j = columns.begin; j < columns.end; ++j) {
          const T* const x = line + (left + j * windows_.dilation(1)) * windows_.channels;
#pragma omp simd
          for (std::int64_t k = 0; k < count; ++k) result[k] = Reduction::take(result[k], widen(x[k]));
        }
      }
      const float elements = static_cast<float>(windows_.elements());
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k) y[k] = narrow<T>(Reduction::finish(result[k], elements));
    }

    Windows windows_;
  };
};

}  // namespace l2l::device::kernels
