// What forward and backward attention share. A row of qkv is [q | k | v], each with its heads side by side (GPT-2).
// Each head of keys and values serves heads / kv_heads heads of queries (Ainslie et al., "GQA", 2023). Scores are
// scaled by 1/sqrt(head_dim) or another factor, and may be capped: c tanh(s / c). If causal, row i of a sequence sees
// its rows 0..i, or the last `window` of these, otherwise all; where documents share a sequence, only those of its own.
#pragma once

#include <algorithm>
#include <cmath>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/kernel.h"
#include "device/kernels/lanes.h"
#include "device/kernels/random_words.h"
#include "device/kernels/tasks.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {

// Queries are taken in blocks of this many rows: a multiple of the rows that block_product holds in registers.
inline constexpr std::int64_t kQueryBlock = 48;
// Where the rows of a block see different columns, products are cut into slices of this many rows, for the same reason.
inline constexpr std::int64_t kSlice = 12;

struct AttentionShape {
  std::int64_t sequences, sequence, heads, kv_heads, width, head_dim;
  std::int64_t hidden;                       // columns of all queries, and of y
  std::int64_t padded_sequence, padded_dim;  // whole vectors
  bool causal;
  std::int64_t window;  // at most `sequence`
  float scale, softcap, probability;
  std::uint32_t rng_op;
  compiler::Shard shard;  // of the heads

  // `qkv` is [rows, width], width = (heads + 2 kv_heads) head_dim.
  AttentionShape(const compiler::Value& qkv, const compiler::Attributes& attributes)
      : sequence(attributes.sequence),
        heads(attributes.heads),
        kv_heads(compiler::kv_heads(attributes)),
        width(qkv.shape[1]),
        causal(attributes.causal),
        window(attributes.window > 0 ? std::min<std::int64_t>(attributes.window, sequence) : sequence),
        softcap(attributes.softcap),
        probability(attributes.probability),
        rng_op(attributes.rng_op),
        shard(attributes.shard) {
    if (sequence < 1 || heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || qkv.shape[0] % sequence != 0 ||
        width % (heads + 2 * kv_heads) != 0) {
      throw BadInput("attention: qkv " + qkv.shape.to_string() + " does not hold sequences of " +
                     std::to_string(sequence) + " rows of " + std::to_string(heads) + " + 2 x " +
                     std::to_string(kv_heads) + " heads");
    }
    sequences = qkv.shape[0] / sequence;
    head_dim = width / (heads + 2 * kv_heads);
    hidden = heads * head_dim;
    padded_sequence = whole_vectors(sequence);
    padded_dim = whole_vectors(head_dim);
    scale = attributes.scale > 0 ? attributes.scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
    if (probability > 0) {
      require_random_elements(Shape{shard.count * tasks(), sequence, sequence}.elements(), "attention");
    }
  }

  // Index of the probability of row i for row j.
  std::int64_t probability_index(std::int64_t task, std::int64_t i, std::int64_t j) const {
    return (task * sequence + i) * sequence + j;
  }
  // The same, for dropout, among those of the heads of all devices.
  std::int64_t dropout_index(std::int64_t task, std::int64_t i, std::int64_t j) const {
    return probability_index((task / heads * shard.count + shard.index) * heads + task % heads, i, j);
  }

  // Task = sequence index * heads + head.
  std::int64_t tasks() const { return sequences * heads; }
  std::int64_t first_row(std::int64_t task) const { return task / heads * sequence; }
  // First column of the task's queries in qkv (and of its result in y), of its keys, and of its values.
  std::int64_t first_column(std::int64_t task) const { return task % heads * head_dim; }
  std::int64_t key_column(std::int64_t task) const { return hidden + task % heads / sharers() * head_dim; }
  std::int64_t value_column(std::int64_t task) const { return key_column(task) + kv_heads * head_dim; }
  // Multiplications and additions of all scores.
  std::int64_t products() const { return tasks() * sequence * window * head_dim; }
  // Heads of queries per head of keys; their tasks are consecutive.
  std::int64_t sharers() const { return heads / kv_heads; }
};

// What the rows of one sequence see of it.
struct SeenRows {
  const AttentionShape& shape;
  const std::int32_t* begins = nullptr;  // [sequence]: first row of each row's document; null: they are one
  const std::int32_t* ends = nullptr;    // and the row behind its last; neither ever falls

  // `documents`: begins, then ends of all rows; may be null.
  SeenRows(const AttentionShape& shape, const std::byte* documents, std::int64_t task) : shape(shape) {
    if (documents == nullptr) return;
    begins = reinterpret_cast<const std::int32_t*>(documents) + shape.first_row(task);
    ends = begins + shape.sequences * shape.sequence;
  }

  // Row i sees rows [first(i), end(i)); neither falls as i rises.
  std::int64_t end(std::int64_t i) const { return shape.causal ? i + 1 : ends != nullptr ? ends[i] : shape.sequence; }
  std::int64_t first(std::int64_t i) const {
    const std::int64_t in_window = shape.causal ? std::max<std::int64_t>(i + 1 - shape.window, 0) : 0;
    return begins != nullptr ? std::max<std::int64_t>(begins[i], in_window) : in_window;
  }
};

// Queries [i, i + rows) against keys [j, j + columns).
struct AttentionBlock {
  std::int64_t i, rows, j, columns;
};

// Rows [row, row + rows) of a block of queries, and columns [first, last).
struct SeenPart {
  std::int64_t row, rows, first, last;

  std::int64_t columns() const { return last - first; }
};

// Cuts the columns [begin, end) of rows [i, i + rows) into parts that hold what these rows see of them and little else:
// columns that all rows see, then slices of rows, each with what its last row sees beyond those. Calls take(part); for
// each row, the columns rise from call to call.
template <typename Take>
void for_seen_parts(const SeenRows& seen, std::int64_t i, std::int64_t rows, std::int64_t begin, std::int64_t end,
                    const Take& take) {
  const auto seen_by = [&](std::int64_t row) { return std::clamp(whole_vectors(seen.end(i + row)), begin, end); };
  const std::int64_t common = seen_by(0);
  if (common > begin) take(SeenPart{0, rows, begin, common});
  for (std::int64_t row = 0; row < rows; row += kSlice) {
    const std::int64_t count = std::min(kSlice, rows - row), last = seen_by(row + count - 1);
    if (last > common) take(SeenPart{row, count, common, last});
  }
}

// Base of the fp32 copies and sums of one slot: arrays in its part of the workspace, in the order of their declaration.
struct SlotArrays : WorkspaceCutter {
  const AttentionShape& shape;

  SlotArrays(const AttentionShape& own, std::byte* base) : WorkspaceCutter(base), shape(own) {}
  float* matrix(std::int64_t rows, std::int64_t columns) { return take<float>(rows * columns); }
};

// A kernel whose tasks run with Arrays, made from SlotArrays, of their own.
template <typename Arrays>
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const compiler::Value& qkv, const compiler::Attributes& attributes) : shape_(qkv, attributes) {}

  Bytes workspace(int threads) const override { return slot_bytes() * static_cast<Bytes>(threads); }

 protected:
  // Calls take(index, arrays) for [0, count), in parallel.
  template <typename Take>
  void in_slots(std::int64_t count, std::byte* workspace, Workers& workers, const Take& take) const {
    for_tasks(workers, count, shape_.products(), [&](std::int64_t index, int slot) {
      take(index, Arrays(shape_, workspace + slot_bytes() * static_cast<Bytes>(slot)));
    });
  }

  AttentionShape shape_;

 private:
  Bytes slot_bytes() const { return Arrays(shape_, nullptr).used(); }
};

// Splits the queries of a task into parts of whole blocks of `rows`, so that few heads still give about 16 parts in
// all.
inline Partition query_parts(const AttentionShape& shape, std::int64_t rows = kQueryBlock) {
  const std::int64_t blocks = (shape.sequence + rows - 1) / rows;
  const std::int64_t parts = std::clamp<std::int64_t>(16 / shape.tasks(), 1, blocks);
  return {shape.sequence, (blocks + parts - 1) / parts * rows};
}

// One head of a row. The next row may lie pages away, where no prefetcher of a processor foresees it.
template <typename T>
void prefetch_head(const AttentionShape& shape, const T* row) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t d = 0; d < shape.head_dim; d += kLine) __builtin_prefetch(row + d);
}

// Rows [0, rows) of one head from a row-major matrix with `stride` elements per row, times `scale`, into
// [rows][padded_dim], padded with zeros.
template <typename T>
void load_head(const AttentionShape& shape, const T* source, std::int64_t stride, std::int64_t rows, float scale,
               float* destination) {
  constexpr std::int64_t kAhead = 8;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row + kAhead < rows) prefetch_head(shape, source + (row + kAhead) * stride);
    const T* from = source + row * stride;
    float* to = destination + row * shape.padded_dim;
#pragma omp simd
    for (std::int64_t d = 0; d < shape.head_dim; ++d) to[d] = widen(from[d]) * scale;
    for (std::int64_t d = shape.head_dim; d < shape.padded_dim; ++d) to[d] = 0;
  }
}

// Transposes what load_head() wrote into [padded_dim][padded_sequence], padded with zeros to whole vectors of columns.
inline void transpose_head(const AttentionShape& shape, const float* source, std::int64_t rows, float* destination) {
  transpose(rows, shape.padded_dim, source, shape.padded_dim, destination, shape.padded_sequence);
}

// Pads the first `own` elements of a row with `value` to whole vectors, so that loops over rows need no remainders.
inline void fill_tail(float* row, std::int64_t own, float value) {
  if (own % kLanes == 0) return;
  float* last = row + own / kLanes * kLanes;
  const std::int64_t kept = own % kLanes;
#pragma omp simd
  for (std::int64_t lane = 0; lane < kLanes; ++lane) last[lane] = lane < kept ? last[lane] : value;
}

// Score of what a row does not see, and of the padding behind its last key.
inline constexpr float kMasked = -1e30f;

inline void multiply(float* values, std::int64_t count, float factor) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) values[j] *= factor;
}
inline void multiply(float* values, std::int64_t count, const float* factors) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) values[j] *= factors[j];
}

// Scores s become c tanh(s / c).
inline void cap_scores(float* scores, std::int64_t count, float cap) {
  const float inverse = 1.0f / cap;
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) scores[j] = cap * fast_tanh(scores[j] * inverse);
}

// The same, with the derivative of each in `slopes`.
inline void cap_scores(float* scores, float* slopes, std::int64_t count, float cap) {
  const float inverse = 1.0f / cap;
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const float share = fast_tanh(scores[j] * inverse);
    scores[j] = cap * share;
    slopes[j] = 1.0f - share * share;
  }
}

// Writes rows of [rows][padded_dim] times `scale` back.
template <typename T>
void store_head(const AttentionShape& shape, const float* source, std::int64_t rows, float scale, T* destination,
                std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = source + row * shape.padded_dim;
    T* to = destination + row * stride;
#pragma omp simd
    for (std::int64_t d = 0; d < shape.head_dim; ++d) to[d] = narrow<T>(from[d] * scale);
  }
}

}  // namespace l2l::device::kernels
