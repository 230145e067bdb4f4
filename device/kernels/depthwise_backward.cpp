#include "device/kernels/depthwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// Inputs dy [M,C], x [R,C] and w [C,W], outputs dx and, where w is trained, dw (+=): sums of bands of places, then
// these in ascending order.
template <typename T>
class DepthwiseBackward final : public Kernel {
 public:
  DepthwiseBackward(const OpView& op) : rows_{Windows(op.attributes)}, trained_(op.outputs.size() > 1) {
    op.require_dtype(op.output(0).dtype, {0, 1, 2});
    if (trained_) op.require_dtype(DType::f32, {4});
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    cut(cutter, threads);
    return cutter.used();
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    const Arrays arrays = cut(cutter, workers.threads());
    const Windows& windows = rows_.windows;
    weights_by_element(as<T>(operands[2]), windows, arrays.weights);
    const std::int64_t width = windows.columns * windows.channels;
    rows_.write(as<T>(operands[3]), 1, arrays.lines, workers, [&](std::int64_t sample, std::int64_t y, float* line) {
      windows.for_rows_at(y, [&](std::int64_t i, std::int64_t place) {
        spread(as<T>(operands[0]) + (sample * windows.rows + place) * width, arrays.weights, i, line);
      });
    });
    if (!trained_) return;
    const Partition strips{windows.channels, kDepthwiseChannels};
    workers.parallel_for(windows.samples * bands().count() * strips.count(), [&](std::int64_t task, int) {
      const std::int64_t strip = task % strips.count();
      sum_band(operands, task / strips.count(), strips.begin(strip), strips.end(strip), arrays.sums);
    });
    workers.parallel_for(strips.count(), [&](std::int64_t strip, int) {
      add_bands(arrays.sums, strips.begin(strip), strips.end(strip), as<float>(operands[4]));
    });
  }

 private:
  struct Arrays {
    float* weights;    // [elements, channels]
    float* sums;       // [samples, bands, elements, channels]
    std::byte* lines;  // of rows_
  };

  Partition bands() const { return {rows_.windows.rows, 16}; }  // rows of places of a sample

  Arrays cut(WorkspaceCutter& cutter, int threads) const {
    const std::int64_t count = rows_.windows.elements() * rows_.windows.channels;
    return {cutter.take<float>(count),
            cutter.take<float>(trained_ ? rows_.windows.samples * bands().count() * count : 0),
            cutter.take<std::byte>(static_cast<std::int64_t>(rows_.workspace(threads)))};
  }

  // A row of dy, to which row `i` of the windows has led, into a row of the image.
  void spread(const T* dy, const float* weights, std::int64_t i, float* line) const {
    const Windows& windows = rows_.windows;
    const std::int64_t channels = windows.channels;
    for (std::int64_t column = 0; column < windows.columns; ++column, dy += channels) {
      const Windows::Inside inside = windows.inside(1, column);
      for (std::int64_t j = inside.begin; j < inside.end; ++j) {
        float* const dx = line + (windows.first(1, column) + j * windows.dilation(1)) * channels;
        const float* const w = weights + (i * windows.size(1) + j) * channels;
#pragma omp simd
        for (std::int64_t k = 0; k < channels; ++k) dx[k] += widen(dy[k]) * w[k];
      }
    }
  }

  // Channels [first, end) of a band, numbered over all samples: sums of each row of places, then of these.
  void sum_band(Operands operands, std::int64_t number, std::int64_t first, std::int64_t end, float* all) const {
    const Windows& windows = rows_.windows;
    const Partition bands = this->bands();
    const std::int64_t sample = number / bands.count(), band = number % bands.count();
    const std::int64_t channels = windows.channels, count = end - first;
    const T* const dy = as<T>(operands[0]) + sample * windows.rows * windows.columns * channels + first;
    const T* const image = as<T>(operands[1]) + sample * windows.height * windows.width * channels + first;
    float* const sums = all + number * windows.elements() * channels + first;
    for (std::int64_t i = 0; i < windows.elements(); ++i) std::fill_n(sums + i * channels, count, 0.0f);
    for (std::int64_t row = bands.begin(band); row < bands.end(band); ++row) {
      const Windows::Inside rows = windows.inside(0, row);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        const std::int64_t y = windows.first(0, row) + i * windows.dilation(0);
        for (std::int64_t j = 0; j < windows.size(1); ++j) {
          add_row(dy + row * windows.columns * channels, image + y * windows.width * channels, j, count,
                  sums + (i * windows.size(1) + j) * channels);
        }
      }
    }
  }

  // What a row of places and a row of the image give for column `j` of the window.
  void add_row(const T* dy, const T* line, std::int64_t j, std::int64_t count, float* sums) const {
    const Windows& windows = rows_.windows;
    const std::int64_t channels = windows.channels;
    float row[kDepthwiseChannels] = {};
    for (std::int64_t column = 0; column < windows.columns; ++column) {
      const std::int64_t at = windows.first(1, column) + j * windows.dilation(1);
      if (at < 0 || at >= windows.width) continue;
      const T *const gradient = dy + column * channels, *const x = line + at * channels;
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k) row[k] += widen(gradient[k]) * widen(x[k]);
    }
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k) sums[k] += row[k];
  }

  void add_bands(const float* sums, std::int64_t first, std::int64_t end, float* dw) const {
    const std::int64_t elements = rows_.windows.elements(), channels = rows_.windows.channels;
    const std::int64_t all = rows_.windows.samples * bands().count();
    for (std::int64_t channel = first; channel < end; ++channel) {
      for (std::int64_t i = 0; i < elements; ++i) {
        float total = 0;
        for (std::int64_t band = 0; band < all; ++band) total += sums[(band * elements + i) * channels + channel];
        dw[channel * elements + i] += total;
      }
    }
  }

  ImageRows<T> rows_;
  bool trained_;
};

}  // namespace

const Factory make_depthwise_backward = make_for_input<DepthwiseBackward, 1>;

}  // namespace l2l::device::kernels
