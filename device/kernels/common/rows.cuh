// Row and column of an element of a matrix.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "device/kernels/common/convert.cuh"

namespace l2l::device::cuda {

// Whether rows of `columns` elements of T begin at 16-byte addresses.
template <typename T>
constexpr bool rows_are_packed(std::int64_t columns) {
  return columns % kPack<T> == 0;
}

// Row `first / columns` and column `first % columns` of a group of Count elements; columns is a multiple of Count. In
// 32 bits, whose division is four times as fast: see require_groups().
struct Place {
  std::int64_t row, column;
};
template <int Count>
__device__ inline Place place_of(std::int64_t first, std::int64_t columns) {
  const auto group = static_cast<std::uint32_t>(first / Count), width = static_cast<std::uint32_t>(columns / Count);
  const std::uint32_t row = group / width;
  return {row, static_cast<std::int64_t>(group - row * width) * Count};
}

// Throws BadInput when place_of() cannot count the groups of `elements` elements in rows of `columns`.
template <typename T>
void require_groups(std::int64_t elements, std::int64_t columns) {
  const std::int64_t groups = rows_are_packed<T>(columns) ? elements / kPack<T> : elements;
  if (groups <= std::numeric_limits<std::uint32_t>::max()) return;
  throw BadInput(std::to_string(elements) + " elements per microbatch are too many: use a smaller batch.micro_batch");
}

}  // namespace l2l::device::cuda
