// Products of attention on fp32 copies of heads, by the vectors of any processor (attention.cpp,
// attention_backward.cpp).
#pragma once

#include <algorithm>

#include "device/kernels/attention.h"
#include "device/kernels/block_product.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {

// Of the forward pass, of one thread: its arrays, and what it computes with them.
template <typename T>
struct VectorScores : SlotArrays {
  using SlotArrays::SlotArrays;
  struct Setup {};
  static constexpr std::int64_t kQueries = kQueryBlock;
  static constexpr bool kScaled = true;  // scores already are

  static void pad(AttentionShape&) {}
  // Keys [begin(first), end(last)) enter the products of a block that sees [first, last).
  static std::int64_t begin(std::int64_t row) { return row / kLanes * kLanes; }
  static std::int64_t end(std::int64_t row) { return row; }

  float* queries = matrix(kQueries, shape.padded_dim);     // scaled
  float* rows = matrix(shape.sequence, shape.padded_dim);  // keys, then values
  float* keys = matrix(shape.padded_dim, shape.padded_sequence);
  float* scores = matrix(kQueries, shape.padded_sequence);
  float* sums = matrix(kQueries, shape.padded_dim);
  std::uint32_t* words = take<std::uint32_t>(random_words_room(shape.padded_sequence));

  // The first `count` rows of a head of keys and of values.
  void load(const T* key, const T* value, std::int64_t stride, std::int64_t count) const {
    load_head(shape, key, stride, count, 1.0f, rows);
    transpose_head(shape, rows, count, keys);
    load_head(shape, value, stride, count, 1.0f, rows);
  }
  void load_queries(const T* query, std::int64_t stride, std::int64_t count) const {
    load_head(shape, query, stride, count, shape.scale, queries);
  }

  // Scores of queries [i, i + count) and of all keys from `begin` on that they see.
  void score(const SeenRows& seen, std::int64_t i, std::int64_t count, std::int64_t begin) const {
    const std::int64_t stride = shape.padded_sequence, dim = shape.padded_dim;
    for_seen_parts(seen, i, count, begin, whole_vectors(seen.end(i + count - 1)), [&](const SeenPart& part) {
      block_product(part.rows, part.columns(), shape.head_dim, {queries + part.row * dim, dim, 1}, keys + part.first,
                    stride, scores + part.row * stride + part.first, stride, false);
    });
  }

  // Sums of the values by `scores`, which are weights now.
  void mix(const SeenRows& seen, std::int64_t i, std::int64_t count, std::int64_t begin) const {
    const std::int64_t stride = shape.padded_sequence, dim = shape.padded_dim;
    for_seen_parts(seen, i, count, begin, seen.end(i + count - 1), [&](const SeenPart& part) {
      block_product(part.rows, dim, part.columns(), {scores + part.row * stride + part.first, stride, 1},
                    rows + part.first * dim, dim, sums + part.row * dim, dim, part.first > begin);
    });
  }
};

// Of the backward pass.
template <typename T>
struct VectorGradients : SlotArrays {
  using SlotArrays::SlotArrays;
  struct Setup {};
  static constexpr std::int64_t kQueries = kQueryBlock, kKeys = 64;
  static constexpr bool kScaled = true;

  static void pad(AttentionShape&) {}
  static std::int64_t end(std::int64_t row) { return whole_vectors(row); }

  float* queries = matrix(shape.sequence, shape.padded_dim);  // scaled
  float* keys = matrix(shape.sequence, shape.padded_dim);
  float* keys_transposed = matrix(shape.padded_dim, shape.padded_sequence);
  float* values_transposed = matrix(shape.padded_dim, shape.padded_sequence);
  float* dy = matrix(shape.sequence, shape.padded_dim);
  float* dq = matrix(kQueries, shape.padded_dim);
  float* dk = matrix(shape.sequence, shape.padded_dim);
  float* dv = matrix(shape.sequence, shape.padded_dim);
  float* probabilities = matrix(kQueries, kKeys);
  float* dscores = matrix(kQueries, kKeys);
  float* products = matrix(kQueries, 1);  // dy . y per row
  float* slopes = matrix(1, kKeys);       // of capped scores
  std::uint32_t* words = take<std::uint32_t>(random_words_room(kKeys));

  // One head of keys and values; clears the sums of their gradients.
  void load_keys(const T* key, const T* value, std::int64_t stride) const {
    const std::int64_t rows = shape.sequence;
    load_head(shape, value, stride, rows, 1.0f, keys);
    transpose_head(shape, keys, rows, values_transposed);
    load_head(shape, key, stride, rows, 1.0f, keys);
    transpose_head(shape, keys, rows, keys_transposed);
    std::fill(dk, dk + rows * shape.padded_dim, 0.0f);
    std::fill(dv, dv + rows * shape.padded_dim, 0.0f);
  }
  void load_queries(const T* query, std::int64_t stride, const T* gradient, std::int64_t gradient_stride) const {
    load_head(shape, query, stride, shape.sequence, shape.scale, queries);
    load_head(shape, gradient, gradient_stride, shape.sequence, 1.0f, dy);
  }

  // dy . y of row i.
  float product(std::int64_t i, const T* y) const {
    const float* const own = dy + i * shape.padded_dim;
    return sum_of(shape.head_dim, [=](std::int64_t d) { return own[d] * widen(y[d]); });
  }

  // Fills `probabilities` with scores and `dscores` with dy v^T.
  void score(const AttentionBlock& block, const SeenRows& seen) const {
    const std::int64_t dim = shape.padded_dim;
    const auto product = [&](const float* rows, const float* transposed, float* result) {
      for_seen_parts(seen, block.i, block.rows, block.j, block.j + end(block.columns), [&](const SeenPart& part) {
        block_product(part.rows, part.columns(), shape.head_dim, {rows + (block.i + part.row) * dim, dim, 1},
                      transposed + part.first, shape.padded_sequence, result + part.row * kKeys + part.first - block.j,
                      kKeys, false);
      });
    };
    product(queries, keys_transposed, probabilities);
    product(dy, values_transposed, dscores);
  }

  // Adds what `probabilities` and `dscores` give to dq, dk and dv. `begins`: dq begins anew.
  void add(const AttentionBlock& block, const SeenRows& seen, bool begins) const {
    const std::int64_t dim = shape.padded_dim;
    // Keys [key, key + count) of the block, by its queries from `row` on.
    const auto add_to_keys = [&](std::int64_t key, std::int64_t count, std::int64_t row) {
      const std::int64_t rows = block.rows - row, at = row * kKeys + key, query = (block.i + row) * dim;
      block_product(count, dim, rows, {probabilities + at, 1, kKeys}, dy + query, dim, dv + (block.j + key) * dim, dim,
                    true);
      block_product(count, dim, rows, {dscores + at, 1, kKeys}, queries + query, dim, dk + (block.j + key) * dim, dim,
                    true);
    };
    const std::int64_t seen_by_all = std::max<std::int64_t>(seen.end(block.i) - block.j, 0);
    const std::int64_t common = std::min((seen_by_all + kSlice - 1) / kSlice * kSlice, block.columns);
    add_to_keys(0, common, 0);
    for (std::int64_t key = common, row = 0; key < block.columns; key += kSlice) {
      while (seen.end(block.i + row) <= block.j + key) ++row;
      add_to_keys(key, std::min(kSlice, block.columns - key), row);
    }
    for_seen_parts(seen, block.i, block.rows, block.j, block.j + block.columns, [&](const SeenPart& part) {
      block_product(part.rows, dim, part.columns(), {dscores + part.row * kKeys + part.first - block.j, kKeys, 1},
                    keys + part.first * dim, dim, dq + part.row * dim, dim, !begins || part.first > block.j);
    });
  }

  void store_keys(T* key, T* value, std::int64_t stride) const {
    store_head(shape, dk, shape.sequence, 1.0f, key, stride);
    store_head(shape, dv, shape.sequence, 1.0f, value, stride);
  }
};

}  // namespace l2l::device::kernels
