#include "device/kernels/factories.h"
#include "device/kernels/windows.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Unfold final : public Kernel {
 public:
  Unfold(const OpView& op) : windows_(op.attributes) { op.require_dtype(op.output(0).dtype, {0}); }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t columns = windows_.columns * windows_.elements() * windows_.channels;
    for_rows(windows_.samples * windows_.rows, columns, workers, [&](std::int64_t row) {
      const T* const image = as<T>(operands[0]) + row / windows_.rows * windows_.height * row_size();
      unfold_row(image, row % windows_.rows, as<T>(operands[1]) + row * columns);
    });
  }

 private:
  std::int64_t row_size() const { return windows_.width * windows_.channels; }

  // The windows at `place` along the height.
  void unfold_row(const T* image, std::int64_t place, T* y) const {
    const Windows::Inside rows = windows_.inside(0, place);
    const std::int64_t size = windows_.size(1) * windows_.channels;
    for (std::int64_t column = 0; column < windows_.columns; ++column) {
      const Windows::Inside inside = windows_.inside(1, column);
      for (std::int64_t i = 0; i < windows_.size(0); ++i, y += size) {
        if (i < rows.begin || i >= rows.end) {
          std::fill_n(y, size, narrow<T>(0));
        } else {
          copy(image + (windows_.first(0, place) + i * windows_.dilation(0)) * row_size(), column, inside, y);
        }
      }
    }
  }

  void copy(const T* x, std::int64_t column, const Windows::Inside& inside, T* y) const {
    const std::int64_t channels = windows_.channels;
    std::fill_n(y, inside.begin * channels, narrow<T>(0));
    windows_.for_runs(inside, column, [=](std::int64_t i, std::int64_t count, std::int64_t from) {
      std::copy_n(x + from * channels, count * channels, y + i * channels);
    });
    std::fill(y + inside.end * channels, y + windows_.size(1) * channels, narrow<T>(0));
  }

  Windows windows_;
};

}  // namespace

const Factory make_unfold = make_for_output<Unfold>;

}  // namespace l2l::device::kernels
