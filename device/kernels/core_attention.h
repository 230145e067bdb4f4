// What the ops of core attention share on the host. The matrix of a task (attention.h), its probabilities or their
// gradient, is [sequence][sequence] in memory; blocks of its rows are fp32 in [rows][padded_sequence].
#pragma once

#include <algorithm>

#include "device/kernels/attention.h"

namespace l2l::device::kernels {

// Queries [begin, begin + rows) of a task.
struct QueryBlock {
  std::int64_t begin, rows;
};

// Calls take(block) for the blocks of queries [begin, end), ascending.
template <typename Take>
void for_query_blocks(std::int64_t begin, std::int64_t end, Take take) {
  for (std::int64_t i = begin; i < end; i += kQueryBlock) take(QueryBlock{i, std::min(kQueryBlock, end - i)});
}

// How many rows of the task's sequence the block sees, from the first one on.
inline std::int64_t seen_by(const SeenRows& seen, QueryBlock block) { return seen.end(block.begin + block.rows - 1); }

// Reads the block's rows of the matrix of `task`; each padded with zeros to whole vectors of what the block sees.
template <typename T>
void load_probabilities(const SeenRows& seen, const T* matrices, std::int64_t task, QueryBlock block,
                        float* destination) {
  const AttentionShape& shape = seen.shape;
  const std::int64_t width = whole_vectors(seen_by(seen, block));
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::int64_t i = block.begin + row, own = seen.end(i);
    float* to = destination + row * shape.padded_sequence;
    widen_row(matrices + shape.probability_index(task, i, 0), to, own);
    std::fill(to, to + seen.first(i), 0.0f);
    std::fill(to + own, to + width, 0.0f);
  }
}

// Writes the rows back, with zeros where a row sees nothing.
template <typename T>
void store_probabilities(const SeenRows& seen, const float* source, std::int64_t task, QueryBlock block, T* matrices) {
  const AttentionShape& shape = seen.shape;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::int64_t i = block.begin + row, own = seen.end(i);
    T* to = matrices + shape.probability_index(task, i, 0);
    narrow_row(source + row * shape.padded_sequence, to, own);
    std::fill(to, to + seen.first(i), T{});
    std::fill(to + own, to + shape.sequence, T{});
  }
}

// Writes rows of [rows][padded_dim] times `scale` plus those of `other`, which may be null; both have `stride` elements
// per row. Without a source, `other` alone, or zeros.
template <typename T>
void store_head_sum(const AttentionShape& shape, const float* source, std::int64_t rows, float scale, const T* other,
                    T* destination, std::int64_t stride) {
  if (other == nullptr && source != nullptr) return store_head(shape, source, rows, scale, destination, stride);
  for (std::int64_t row = 0; row < rows; ++row, destination += stride) {
    if (other == nullptr) {
      std::fill(destination, destination + shape.head_dim, T{});
    } else if (source == nullptr) {
      std::copy(other + row * stride, other + row * stride + shape.head_dim, destination);
    } else {
      const float* from = source + row * shape.padded_dim;
      const T* added = other + row * stride;
#pragma omp simd
      for (std::int64_t d = 0; d < shape.head_dim; ++d) destination[d] = narrow<T>(from[d] * scale + widen(added[d]));
    }
  }
}

}  // namespace l2l::device::kernels
