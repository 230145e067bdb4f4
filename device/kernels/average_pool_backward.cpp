#include "device/kernels/factories.h"
#include "device/kernels/windows.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class AveragePoolBackward final : public Kernel {
 public:
  AveragePoolBackward(const OpView& op) : rows_{Windows(op.attributes)} { op.require_dtype(op.output(0).dtype, {0}); }

  Bytes workspace(int threads) const override { return rows_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Windows& windows = rows_.windows;
    const std::int64_t channels = windows.channels;
    const auto add_row = [&](const T* dy, float* line) {
      for (std::int64_t column = 0; column < windows.columns; ++column, dy += channels) {
        const Windows::Inside inside = windows.inside(1, column);
        for (std::int64_t i = inside.begin; i < inside.end; ++i) {
          add_widened(dy, channels, line + (windows.first(1, column) + i * windows.dilation(1)) * channels);
        }
      }
    };
    rows_.write(as<T>(operands[1]), static_cast<float>(windows.elements()), workspace, workers,
                [&](std::int64_t sample, std::int64_t y, float* line) {
                  windows.for_rows_at(y, [&](std::int64_t, std::int64_t place) {
                    add_row(as<T>(operands[0]) + (sample * windows.rows + place) * windows.columns * channels, line);
                  });
                });
  }

 private:
  ImageRows<T> rows_;
};

}  // namespace

const Factory make_average_pool_backward = make_for_output<AveragePoolBackward>;

}  // namespace l2l::device::kernels
