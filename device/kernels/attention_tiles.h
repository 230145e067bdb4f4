// Products of attention in bf16 by a processor's tile registers (tile_product.h). Probabilities, and gradients of
// scores, are rounded to bf16 where they enter a product; all sums are fp32.
#pragma once

#include <algorithm>

#include "device/kernels/attention.h"
#include "device/kernels/reduce.h"
#include "device/kernels/tile_product.h"

namespace l2l::device::kernels {

// Rows [0, count) of a head into [rows][padded_dim], padded with zeros.
inline void copy_head(const AttentionShape& shape, const bf16* source, std::int64_t stride, std::int64_t count,
                      std::int64_t rows, bf16* destination) {
  constexpr std::int64_t kAhead = 8;
  for (std::int64_t row = 0; row < rows; ++row) {
    bf16* const to = destination + row * shape.padded_dim;
    bf16* tail = to;
    if (row + kAhead < count) prefetch_head(shape, source + (row + kAhead) * stride);
    if (row < count) tail = std::copy_n(source + row * stride, shape.head_dim, to);
    std::fill(tail, to + shape.padded_dim, bf16{0});
  }
}

// Room for whole tiles, which hold zeros behind the last row and column.
inline void pad_to_tiles(AttentionShape& shape) {
  shape.padded_sequence = whole_tile_steps(shape.sequence);
  shape.padded_dim = whole_tile_steps(shape.head_dim);
}

// [rows][padded_dim] of bf16, as words, to pairs of rows of the transpose: [padded_dim / 2][padded_sequence].
inline void transpose_rows(const AttentionShape& shape, std::int64_t rows, const bf16* source, Bf16Pair* destination) {
  static_assert(kTileRows % kLanes == 0);
  transpose(rows, shape.padded_dim / 2, reinterpret_cast<const std::uint32_t*>(source), shape.padded_dim / 2,
            destination, shape.padded_sequence);
}

// Of the forward pass, of one thread: its arrays, and what it computes with them.
struct TileScores : SlotArrays {
  using SlotArrays::SlotArrays;
  using Setup = TileSetup;
  static constexpr std::int64_t kQueries = 32;
  static constexpr bool kScaled = false;  // scores are to be multiplied by the shape's scale

  static void pad(AttentionShape& shape) { pad_to_tiles(shape); }
  // Keys [begin(first), end(last)) enter the products of a block that sees [first, last).
  static std::int64_t begin(std::int64_t row) { return row / kTileSteps * kTileSteps; }
  static std::int64_t end(std::int64_t row) { return whole_tile_steps(row); }

  bf16* rows = take<bf16>(shape.padded_sequence * shape.padded_dim);              // keys, then values
  Bf16Pair* keys = take<Bf16Pair>(shape.padded_dim / 2 * shape.padded_sequence);  // of their transpose
  Bf16Pair* values = take<Bf16Pair>(shape.padded_sequence / 2 * shape.padded_dim);
  bf16* queries = take<bf16>(kQueries * shape.padded_dim);
  float* scores = matrix(kQueries, shape.padded_sequence);
  bf16* weights = take<bf16>(kQueries * shape.padded_sequence);
  float* sums = matrix(kQueries, shape.padded_dim);
  std::uint32_t* words = take<std::uint32_t>(random_words_room(shape.padded_sequence));

  // The first `count` rows of a head of keys and of values.
  void load(const bf16* key, const bf16* value, std::int64_t stride, std::int64_t count) const {
    const std::int64_t whole = end(count), dim = shape.padded_dim;
    copy_head(shape, key, stride, count, whole, rows);
    transpose_rows(shape, whole, rows, keys);
    copy_head(shape, value, stride, count, whole, rows);
    pair_rows(whole, dim, rows, dim, values, dim);
  }
  void load_queries(const bf16* query, std::int64_t stride, std::int64_t count) const {
    copy_head(shape, query, stride, count, kQueries, queries);
  }

  // Products of queries [i, i + count) and of all keys from `begin` on that they see.
  void score(const SeenRows& seen, std::int64_t i, std::int64_t count, std::int64_t begin) const {
    const std::int64_t stride = shape.padded_sequence;
    tile_product(kQueries, end(seen.end(i + count - 1)) - begin, shape.padded_dim, queries, shape.padded_dim,
                 keys + begin, stride, scores + begin, stride, false);
  }

  // Sums of the values by `scores`, which are weights now.
  void mix(const SeenRows& seen, std::int64_t i, std::int64_t count, std::int64_t begin) const {
    const std::int64_t stride = shape.padded_sequence, dim = shape.padded_dim;
    const std::int64_t columns = end(seen.end(i + count - 1)) - begin;
    // Of a last block, rows behind `count` hold what was there; so do sums that nobody reads.
    for (std::int64_t row = 0; row < count; ++row) {
      narrow_row(scores + row * stride + begin, weights + row * stride + begin, columns);
    }
    tile_product(kQueries, dim, columns, weights + begin, stride, values + begin / 2 * dim, dim, sums, dim, false);
  }
};

// Of the backward pass. Gradients of keys and values are summed as their transposes, so that the left factors, of which
// a head has one each, are what is transposed.
struct TileGradients : SlotArrays {
  using SlotArrays::SlotArrays;
  using Setup = TileSetup;
  static constexpr std::int64_t kQueries = 64, kKeys = 64;
  static constexpr bool kScaled = false;

  static void pad(AttentionShape& shape) { pad_to_tiles(shape); }
  static std::int64_t end(std::int64_t row) { return whole_tile_steps(row); }

  // Rows of all queries, in whole blocks.
  const std::int64_t query_rows = (shape.sequence + kQueries - 1) / kQueries * kQueries;
  Bf16Pair* keys = take<Bf16Pair>(shape.padded_sequence / 2 * shape.padded_dim);
  Bf16Pair* keys_transposed = take<Bf16Pair>(shape.padded_dim / 2 * shape.padded_sequence);
  Bf16Pair* values_transposed = take<Bf16Pair>(shape.padded_dim / 2 * shape.padded_sequence);
  bf16* queries = take<bf16>(query_rows * shape.padded_dim);
  bf16* queries_transposed = take<bf16>(shape.padded_dim * query_rows);
  bf16* dy = take<bf16>(query_rows * shape.padded_dim);
  bf16* dy_transposed = take<bf16>(shape.padded_dim * query_rows);
  float* dk = matrix(shape.padded_dim, shape.padded_sequence);  // transposed, as is dv
  float* dv = matrix(shape.padded_dim, shape.padded_sequence);
  float* turned = matrix(query_rows, shape.padded_dim);  // what is being transposed
  float* dq = matrix(kQueries, shape.padded_dim);
  float* probabilities = matrix(kQueries, kKeys);
  float* dscores = matrix(kQueries, kKeys);
  Bf16Pair* probability_pairs = take<Bf16Pair>(kQueries / 2 * kKeys);
  Bf16Pair* dscore_pairs = take<Bf16Pair>(kQueries / 2 * kKeys);
  bf16* dscore_rows = take<bf16>(kQueries * kKeys);
  float* products = matrix(kQueries, 1);  // dy . y per row
  float* slopes = matrix(1, kKeys);       // of capped scores
  std::uint32_t* words = take<std::uint32_t>(random_words_room(kKeys));

  // One head of keys and values; clears the sums of their gradients.
  void load_keys(const bf16* key, const bf16* value, std::int64_t stride) const {
    const std::int64_t all = shape.padded_sequence, dim = shape.padded_dim;
    bf16* const rows = reinterpret_cast<bf16*>(turned);
    copy_head(shape, value, stride, shape.sequence, all, rows);
    transpose_rows(shape, all, rows, values_transposed);
    copy_head(shape, key, stride, shape.sequence, all, rows);
    transpose_rows(shape, all, rows, keys_transposed);
    pair_rows(all, dim, rows, dim, keys, dim);
    std::fill(dk, dk + dim * all, 0.0f);
    std::fill(dv, dv + dim * all, 0.0f);
  }
  void load_queries(const bf16* query, std::int64_t stride, const bf16* gradient, std::int64_t gradient_stride) const {
    load_with_transpose(query, stride, queries, queries_transposed);
    load_with_transpose(gradient, gradient_stride, dy, dy_transposed);
  }

  // dy . y of row i.
  float product(std::int64_t i, const bf16* y) const {
    const bf16* const own = dy + i * shape.padded_dim;
    return sum_of(shape.head_dim, [=](std::int64_t d) { return widen(own[d]) * widen(y[d]); });
  }

  // Fills `probabilities` with scores and `dscores` with dy v^T.
  void score(const AttentionBlock& block, const SeenRows&) const {
    const std::int64_t columns = end(block.columns), dim = shape.padded_dim, stride = shape.padded_sequence;
    tile_product(kQueries, columns, dim, queries + block.i * dim, dim, keys_transposed + block.j, stride, probabilities,
                 kKeys, false);
    tile_product(kQueries, columns, dim, dy + block.i * dim, dim, values_transposed + block.j, stride, dscores, kKeys,
                 false);
  }

  // Adds what `probabilities` and `dscores` give to dq, dk and dv. `begins`: dq begins anew.
  void add(const AttentionBlock& block, const SeenRows&, bool begins) const {
    const std::int64_t columns = end(block.columns), dim = shape.padded_dim, stride = shape.padded_sequence;
    const std::int64_t rows = end(block.rows);  // those behind the last one count as steps, too
    std::fill(probabilities + block.rows * kKeys, probabilities + rows * kKeys, 0.0f);
    std::fill(dscores + block.rows * kKeys, dscores + rows * kKeys, 0.0f);
    pair_rows(rows, columns, probabilities, kKeys, probability_pairs, kKeys);
    pair_rows(rows, columns, dscores, kKeys, dscore_pairs, kKeys);
    narrow_row(dscores, dscore_rows, rows * kKeys);  // columns behind the last are not read
    tile_product(dim, columns, rows, dy_transposed + block.i, query_rows, probability_pairs, kKeys, dv + block.j,
                 stride, true);
    tile_product(dim, columns, rows, queries_transposed + block.i, query_rows, dscore_pairs, kKeys, dk + block.j,
                 stride, true);
    tile_product(rows, dim, columns, dscore_rows, kKeys, keys + block.j / 2 * dim, dim, dq, dim, !begins);
  }

  void store_keys(bf16* key, bf16* value, std::int64_t stride) const {
    store_transposed(dk, shape.scale, key, stride);
    store_transposed(dv, 1.0f, value, stride);
  }

 private:
  void load_with_transpose(const bf16* source, std::int64_t stride, bf16* rows, bf16* transposed) const {
    const std::int64_t dim = shape.padded_dim;
    Bf16Pair* const pairs = reinterpret_cast<Bf16Pair*>(turned);
    copy_head(shape, source, stride, shape.sequence, query_rows, rows);
    pair_rows(query_rows, dim, rows, dim, pairs, dim);
    transpose(query_rows / 2, dim, pairs, dim, reinterpret_cast<std::uint32_t*>(transposed), query_rows / 2);
  }

  void store_transposed(const float* gradient, float scale, bf16* destination, std::int64_t stride) const {
    transpose(shape.padded_dim, shape.padded_sequence, gradient, shape.padded_sequence, turned, shape.padded_dim);
    store_head(shape, turned, shape.sequence, scale, destination, stride);
  }
};

}  // namespace l2l::device::kernels
