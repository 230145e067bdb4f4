// Rows of a matrix in the type in which a kernel computes with them several times: fp16, which takes a dozen
// instructions to widen where it is not done by a row, is copied as fp32; others are read and written where they are.
#pragma once

#include <type_traits>

#include "device/kernels/convert.h"

namespace l2l::device::kernels {

// At most kCount rows of one worker. A copy of this object starts where the original is: rows that one of them takes
// from then on overwrite those that the other takes. Thread-bound.
template <typename T, std::size_t kCount>
class ComputeRows {
 public:
  static constexpr bool kCopies = std::is_same_v<T, f16>;
  using Element = std::conditional_t<kCopies, float, T>;

  static Bytes workspace(int threads, std::int64_t columns) {
    return kCopies ? static_cast<Bytes>(threads) * kCount * stride(columns) * sizeof(float) : 0;
  }

  // `workspace`: 64-byte aligned, of the size above. `slot`: of the worker.
  ComputeRows(std::byte* workspace, int slot, std::int64_t columns) : columns_(columns), next_(as<float>(workspace)) {
    if constexpr (kCopies) next_ += static_cast<Bytes>(slot) * kCount * stride(columns);
  }

  const Element* read(const T* row) {
    if constexpr (!kCopies) {
      return row;
    } else {
      float* const copy = take();
      widen_row(row, copy, columns_);
      return copy;
    }
  }
  // A row to be written; call written() afterwards.
  Element* write(T* row) {
    if constexpr (!kCopies) {
      return row;
    } else {
      return take();
    }
  }
  void written(const Element* from, T* row) const {
    if constexpr (kCopies) narrow_row(from, row, columns_);
  }

 private:
  static Bytes stride(std::int64_t columns) { return (static_cast<Bytes>(columns) + 15) / 16 * 16; }
  float* take() {
    float* const row = next_;
    next_ += stride(columns_);
    return row;
  }

  std::int64_t columns_;
  float* next_;
};

}  // namespace l2l::device::kernels
