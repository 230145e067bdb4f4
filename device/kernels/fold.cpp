#include "device/kernels/factories.h"
#include "device/kernels/windows.h"

namespace l2l::device::kernels {
namespace {

// Each row of an image gathers what the windows that cover it have of it.
template <typename T>
class Fold final : public Kernel {
 public:
  Fold(const OpView& op) : rows_{Windows(op.attributes)} { op.require_dtype(op.output(0).dtype, {0}); }

  Bytes workspace(int threads) const override { return rows_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Windows& windows = rows_.windows;
    const T* const dy = as<T>(operands[0]);
    rows_.write(as<T>(operands[1]), 1, workspace, workers, [&](std::int64_t sample, std::int64_t y, float* line) {
      windows.for_rows_at(y, [&](std::int64_t i, std::int64_t place) {
        add_row(dy + (sample * windows.rows + place) * windows.columns * window_size(), i, line);
      });
    });
  }

 private:
  std::int64_t window_size() const { return rows_.windows.elements() * rows_.windows.channels; }

  // Row i of the windows along the width, the first of which is at dy.
  void add_row(const T* dy, std::int64_t i, float* line) const {
    const Windows& windows = rows_.windows;
    const std::int64_t channels = windows.channels;
    for (std::int64_t column = 0; column < windows.columns; ++column) {
      const T* const row = dy + column * window_size() + i * windows.size(1) * channels;
      windows.for_runs(windows.inside(1, column), column, [=](std::int64_t from, std::int64_t count, std::int64_t x) {
        add_widened(row + from * channels, count * channels, line + x * channels);
      });
    }
  }

  ImageRows<T> rows_;
};

}  // namespace

const Factory make_fold = make_for_output<Fold>;

}  // namespace l2l::device::kernels
