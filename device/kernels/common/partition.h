// Cuts an index range into blocks by its length alone, so that results do not depend on the number of workers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace l2l::device::kernels {

struct Partition {
  std::int64_t total;
  std::int64_t size;  // of every block but the last, which may be smaller

  std::int64_t count() const { return (total + size - 1) / size; }
  std::int64_t begin(std::int64_t block) const { return block * size; }
  std::int64_t end(std::int64_t block) const { return std::min(total, (block + 1) * size); }
};

// Elements per block: enough work to hide the cost of scheduling it.
inline constexpr std::int64_t kBlockElements = 16384;

inline Partition element_blocks(std::int64_t elements) { return {elements, kBlockElements}; }

inline Partition row_blocks(std::int64_t rows, std::int64_t row_elements) {
  return {rows, std::max<std::int64_t>(1, kBlockElements / std::max<std::int64_t>(1, row_elements))};
}

}  // namespace l2l::device::kernels
