// Rows of a matrix that a kernel passes over several times, as vectors of fp32.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/lanes.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {

// kLanes elements.
template <typename T>
inline __attribute__((always_inline)) FloatVector widen_vector(const T* source) {
  float lanes[kLanes];
  widen_row(source, lanes, kLanes);
  return load_vector(lanes);
}

// The first `count` elements of a vector.
template <typename T>
inline __attribute__((always_inline)) void narrow_vector(FloatVector vector, T* destination, std::int64_t count) {
  float lanes[kLanes];
  store_vector(lanes, vector);
  narrow_row(lanes, destination, count);
}

// fp32 copies of rows of T, each of whole vectors with zeros behind its end: `count` of them for each worker. fp32 rows
// of whole vectors are read where they are. Immutable.
template <typename T>
class VectorRows {
 public:
  static Bytes workspace(int threads, std::int64_t columns, std::int64_t count) {
    return in_place(columns) ? 0 : static_cast<Bytes>(threads * slot_floats(columns, count)) * sizeof(float);
  }

  // `workspace`: 64-byte aligned, of the size above. `slot`: of the worker.
  VectorRows(std::byte* workspace, int slot, std::int64_t columns, std::int64_t count)
      : columns_(columns),
        copies_(in_place(columns) ? nullptr : as<float>(workspace) + slot * slot_floats(columns, count)) {}

  std::int64_t width() const { return whole_vectors(columns_); }

  // Calls take(i, turn, vector) for each vector of `row`, in in_turns()'s order, and keeps them as copy `index`.
  // Returns where they lie.
  template <typename Take>
  inline __attribute__((always_inline)) const float* read(std::int64_t index, const T* row, const Take& take) const {
    const std::int64_t width = this->width();
    if constexpr (kFp32) {
      if (in_place(columns_)) {
        in_turns(width, [&](std::int64_t i, int turn) { take(i, turn, load_vector(row + i)); });
        return row;
      }
    }
    float* const copy = copy_of(index);
    if constexpr (!kFp32) {
      if (width == columns_) {
        in_turns(width, [&](std::int64_t i, int turn) {
          const FloatVector vector = widen_vector(row + i);
          store_vector(copy + i, vector);
          take(i, turn, vector);
        });
        return copy;
      }
    }
    widen_row(row, copy, columns_);
    pad(index, 0);
    in_turns(width, [&](std::int64_t i, int turn) { take(i, turn, load_vector(copy + i)); });
    return copy;
  }
  const float* read(std::int64_t index, const T* row) const {
    return read(index, row, [](std::int64_t, int, FloatVector) {});
  }

  // Sum of element(i, vector) over the vectors of `row`, in sum_of()'s order; `copy`: where they lie then.
  template <typename Element>
  inline __attribute__((always_inline)) float read_sum(std::int64_t index, const T* row, const float*& copy,
                                                       const Element& element) const {
    FloatVector partial[4] = {};
    copy = read(index, row, [&](std::int64_t i, int turn, FloatVector vector) { partial[turn] += element(i, vector); });
    return sum_of_turns(partial);
  }

  // What lies behind the end of copy `index` from now on.
  void pad(std::int64_t index, float value) const {
    if (in_place(columns_)) return;
    float* const copy = copy_of(index);
    std::fill(copy + columns_, copy + width(), value);
  }

  // Writes element(i), a vector, for each vector of `row`.
  template <typename Element>
  inline __attribute__((always_inline)) void write(T* row, const Element& element) const {
    const std::int64_t columns = columns_;
    std::int64_t i = 0;
    for (; i + kLanes <= columns; i += kLanes) narrow_vector(element(i), row + i, kLanes);
    if (i < columns) narrow_vector(element(i), row + i, columns - i);
  }

 private:
  static constexpr bool kFp32 = std::is_same_v<T, float>;
  static bool in_place(std::int64_t columns) { return kFp32 && columns % kLanes == 0; }
  static std::int64_t stride(std::int64_t columns) { return (columns + 15) / 16 * 16; }
  static std::int64_t slot_floats(std::int64_t columns, std::int64_t count) { return count * stride(columns); }

  float* copy_of(std::int64_t index) const { return copies_ + index * stride(columns_); }

  std::int64_t columns_;
  float* copies_;
};

}  // namespace l2l::device::kernels
