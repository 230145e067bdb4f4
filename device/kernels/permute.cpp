#include <algorithm>
#include <array>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/strides.h"

namespace l2l::device::kernels {
namespace {

// Copies whole rows where the innermost dimension stays the innermost. Otherwise it transposes: `column_` is the
// dimension of y along which x is contiguous.
template <typename T>
class Permute final : public Kernel {
 public:
  Permute(const OpView& op) : dims_(op.attributes) {
    op.require_dtype(op.output(0).dtype, {0});
    for (std::size_t i = 3; i-- > 0;) {
      steps_[i] = steps_[i + 1] * dims_.sizes[i + 1];
    }
    while (column_ > 0 && dims_.strides[column_] != 1) --column_;
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* const x = as<T>(operands[0]);
    T* const y = as<T>(operands[1]);
    if (column_ == 3) {
      copy_rows(x, y, workers);
    } else {
      transpose(x, y, workers);
    }
  }

 private:
  static constexpr std::int64_t kTile = 32;

  void copy_rows(const T* x, T* y, Workers& workers) const {
    const std::array<std::int64_t, 4>&sizes = dims_.sizes, &strides = dims_.strides;
    for_rows(sizes[0] * sizes[1] * sizes[2], sizes[3], workers, [&](std::int64_t row) {
      const T* const from = x + row / (sizes[1] * sizes[2]) * strides[0] + row / sizes[2] % sizes[1] * strides[1] +
                            row % sizes[2] * strides[2];
      std::copy(from, from + sizes[3], y + row * sizes[3]);
    });
  }

  void transpose(const T* x, T* y, Workers& workers) const {
    const std::size_t a = column_ == 0 ? 1 : 0, b = column_ == 2 ? 1 : 2;  // the two other dimensions
    const std::array<std::int64_t, 4>&sizes = dims_.sizes, &strides = dims_.strides;
    const Partition rows{sizes[column_], kTile}, columns{sizes[3], kTile};
    const std::int64_t tiles = rows.count() * columns.count();
    for_rows(sizes[a] * sizes[b] * tiles, kTile * kTile, workers, [&](std::int64_t task) {
      const std::int64_t row = task / columns.count() % rows.count(), column = task % columns.count();
      const std::int64_t i = task / tiles / sizes[b], j = task / tiles % sizes[b];
      const std::int64_t first = rows.begin(row), left = columns.begin(column);
      transpose_tile(x + i * strides[a] + j * strides[b] + first + left * strides[3], rows.end(row) - first,
                     columns.end(column) - left, y + i * steps_[a] + j * steps_[b] + first * steps_[column_] + left);
    });
  }

  void transpose_tile(const T* x, std::int64_t rows, std::int64_t columns, T* y) const {
    const std::int64_t stride = dims_.strides[3], step = steps_[column_];
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) y[row * step + i] = x[row + i * stride];
    }
  }

  PermutedDims dims_;
  std::array<std::int64_t, 4> steps_ = {1, 1, 1, 1};  // how far apart in y the elements of each dimension are
  std::size_t column_ = 3;
};

}  // namespace

const Factory make_permute = make_for_output<Permute>;

}  // namespace l2l::device::kernels
