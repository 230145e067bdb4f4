#include "device/kernels/factories.h"
#include "device/kernels/pool.h"

namespace l2l::device::kernels {
namespace {

// Each row of an image finds which of its elements are the first of a window that equal its maximum. It looks through
// the rows of the window down to itself.
template <typename T>
class MaxPoolBackward final : public Kernel {
 public:
  MaxPoolBackward(const OpView& op) : rows_{Windows(op.attributes)} { op.require_dtype(op.output(0).dtype, {0, 1, 2}); }

  Bytes workspace(int threads) const override { return rows_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Windows& windows = rows_.windows;
    const std::int64_t channels = windows.channels;
    rows_.write(as<T>(operands[3]), 1, workspace, workers, [&](std::int64_t sample, std::int64_t row, float* line) {
      const T* const image = as<T>(operands[1]) + sample * windows.height * rows_.columns();
      windows.for_rows_at(row, [&](std::int64_t i, std::int64_t place) {
        const std::int64_t first = (sample * windows.rows + place) * windows.columns * channels;
        const T *dy = as<T>(operands[0]) + first, *y = as<T>(operands[2]) + first;
        for (std::int64_t column = 0; column < windows.columns; ++column, dy += channels, y += channels) {
          for (std::int64_t from = 0; from < channels; from += kPoolChannels) {
            const Chosen chosen(dy + from, y + from, std::min(kPoolChannels, channels - from));
            add_window(image + from, i, place, column, chosen, line + from);
          }
        }
      });
    });
  }

 private:
  // Some channels of one window: gradient and maximum, and which have met that.
  struct Chosen {
    std::int64_t count;
    float dy[kPoolChannels], largest[kPoolChannels];
    std::int32_t met[kPoolChannels] = {};

    Chosen(const T* its_dy, const T* y, std::int64_t channels) : count(channels) {
      widen_row(its_dy, dy, count);
      widen_row(y, largest, count);
    }

    __attribute__((always_inline)) bool equals(std::int64_t k, float x) const {
      return x == largest[k] || (x != x && largest[k] != largest[k]);
    }
    void pass(const T* x) {
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k) met[k] = equals(k, widen(x[k])) ? 1 : met[k];
    }
    void add(const T* x, float* dx) {
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k) {
        const bool equal = equals(k, widen(x[k]));
        dx[k] += equal && met[k] == 0 ? dy[k] : 0.0f;
        met[k] = equal ? 1 : met[k];
      }
    }
  };

  // Row `last` of the window at `place`, `column`.
  void add_window(const T* image, std::int64_t last, std::int64_t place, std::int64_t column, Chosen chosen,
                  float* dx) const {
    const Windows& windows = rows_.windows;
    const Windows::Inside inside = windows.inside(1, column);
    const std::int64_t top = windows.first(0, place), left = windows.first(1, column);
    for (std::int64_t i = windows.inside(0, place).begin; i <= last; ++i) {
      const T* const line = image + (top + i * windows.dilation(0)) * rows_.columns();
      for (std::int64_t j = inside.begin; j < inside.end; ++j) {
        const std::int64_t x = (left + j * windows.dilation(1)) * windows.channels;
        if (i < last) {
          chosen.pass(line + x);
        } else {
          chosen.add(line + x, dx + x);
        }
      }
    }
  }

  ImageRows<T> rows_;
};

}  // namespace

const Factory make_max_pool_backward = make_for_output<MaxPoolBackward>;

}  // namespace l2l::device::kernels
