#include <algorithm>

#include "device/kernels/attention.h"
#include "device/kernels/block_product.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kKeyBlock = 64;

struct Arrays : SlotArrays {
  using SlotArrays::SlotArrays;
  float* queries = matrix(shape.sequence, shape.padded_dim);  // scaled
  float* keys = matrix(shape.sequence, shape.padded_dim);
  float* keys_transposed = matrix(shape.padded_dim, shape.padded_sequence);
  float* values_transposed = matrix(shape.padded_dim, shape.padded_sequence);
  float* dy = matrix(shape.sequence, shape.padded_dim);
  float* dq = matrix(kQueryBlock, shape.padded_dim);
  float* dk = matrix(shape.sequence, shape.padded_dim);
  float* dv = matrix(shape.sequence, shape.padded_dim);
  float* probabilities = matrix(kQueryBlock, kKeyBlock);
  float* dscores = matrix(kQueryBlock, kKeyBlock);
  float* products = matrix(kQueryBlock, 1);  // dy . y per row
  float* slopes = matrix(1, kKeyBlock);      // of capped scores
  std::uint32_t* words = take<std::uint32_t>(random_words_room(kKeyBlock));
};

// Queries [i, i + rows) against keys [j, j + columns).
struct Block {
  std::int64_t i, rows, j, columns;
};

// With P the probabilities, M the dropout mask with its scale and D = dy . y per row: dv = (P M)^T dy,
// dS = P (M (dy v^T) - D), dq = dS k / sqrt(d), dk = dS^T q / sqrt(d). P is recomputed from logsumexp. The queries
// that share a head of keys are taken in ascending order, on one thread.
// T. Dao et al., "FlashAttention", NeurIPS 2022, appendix B.2.
template <typename T>
class AttentionBackward final : public AttentionKernel<Arrays> {
 public:
  AttentionBackward(const OpView& op) : AttentionKernel(op.input(1), op.attributes) {
    op.require_dtype(op.input(1).dtype, {0, 2, op.inputs.size()});
    op.require_dtype(DType::f32, {3});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    const DropoutMask mask(parameters, shape_.rng_op, shape_.probability);
    const std::int64_t sharers = shape_.sharers();
    in_slots(shape_.tasks() / sharers, workspace, workers, [&](std::int64_t group, const Arrays& arrays) {
      load_keys(operands, group * sharers, arrays);
      for (std::int64_t task = group * sharers; task < (group + 1) * sharers; ++task) {
        load_queries(operands, task, arrays);
        for (std::int64_t i = 0; i < shape_.sequence; i += kQueryBlock) {
          take_queries(operands, task, i, mask, arrays);
        }
      }
      T* dqkv = gradient_of(operands, group * sharers);
      store_head(shape_, arrays.dk, shape_.sequence, 1.0f, dqkv + shape_.key_column(group * sharers), shape_.width);
      store_head(shape_, arrays.dv, shape_.sequence, 1.0f, dqkv + shape_.value_column(group * sharers), shape_.width);
    });
  }

 private:
  // dqkv from the task's sequence on.
  T* gradient_of(Operands operands, std::int64_t task) const {
    return as<T>(operands.back()) + shape_.first_row(task) * shape_.width;
  }

  // One head of keys; clears the sums of its gradients.
  void load_keys(Operands operands, std::int64_t task, const Arrays& arrays) const {
    const std::int64_t rows = shape_.sequence, stride = shape_.width;
    const T* qkv = as<T>(operands[1]) + shape_.first_row(task) * stride;
    load_head(shape_, qkv + shape_.value_column(task), stride, rows, 1.0f, arrays.keys);
    transpose_head(shape_, arrays.keys, rows, arrays.values_transposed);
    load_head(shape_, qkv + shape_.key_column(task), stride, rows, 1.0f, arrays.keys);
    transpose_head(shape_, arrays.keys, rows, arrays.keys_transposed);
    std::fill(arrays.dk, arrays.dk + rows * shape_.padded_dim, 0.0f);
    std::fill(arrays.dv, arrays.dv + rows * shape_.padded_dim, 0.0f);
  }

  void load_queries(Operands operands, std::int64_t task, const Arrays& arrays) const {
    const std::int64_t row = shape_.first_row(task), column = shape_.first_column(task);
    load_head(shape_, as<T>(operands[1]) + row * shape_.width + column, shape_.width, shape_.sequence, shape_.scale,
              arrays.queries);
    load_head(shape_, as<T>(operands[0]) + row * shape_.hidden + column, shape_.hidden, shape_.sequence, 1.0f,
              arrays.dy);
  }

  void take_queries(Operands operands, std::int64_t task, std::int64_t i, const DropoutMask& mask,
                    const Arrays& arrays) const {
    const std::int64_t rows = std::min(kQueryBlock, shape_.sequence - i), dim = shape_.padded_dim;
    T* const dq = gradient_of(operands, task) + i * shape_.width + shape_.first_column(task);
    for (std::int64_t row = 0; row < rows; ++row) prefetch_head(shape_, dq + row * shape_.width);
    const T* y = as<T>(operands[2]) + (shape_.first_row(task) + i) * shape_.hidden + shape_.first_column(task);
    for (std::int64_t row = 0; row < rows; ++row) {
      arrays.products[row] = dot(arrays.dy + (i + row) * dim, y + row * shape_.hidden);
    }
    const float* logsumexp = as<float>(operands[3]) + (shape_.first_row(task) + i) * shape_.heads + task % shape_.heads;
    const SeenRows seen(shape_, operands.size() > 5 ? operands[4] : nullptr, task);
    const std::int64_t all = seen.end(i + rows - 1), first = seen.first(i) / kKeyBlock * kKeyBlock;
    for (std::int64_t j = first; j < all; j += kKeyBlock) {
      const Block block{i, rows, j, std::min(kKeyBlock, all - j)};
      score_gradients(block, seen, task, logsumexp, mask, arrays);
      add_gradients(block, seen, /*begins=*/j == first, arrays);
    }
    store_head(shape_, arrays.dq, rows, shape_.scale, dq, shape_.width);
  }

  float dot(const float* dy, const T* y) const {
    return sum_of(shape_.head_dim, [=](std::int64_t d) { return dy[d] * widen(y[d]); });
  }

  // Fills probabilities (dropped and scaled) and dscores.
  void score_gradients(const Block& block, const SeenRows& seen_rows, std::int64_t task, const float* logsumexp,
                       const DropoutMask& mask, const Arrays& arrays) const {
    const std::int64_t dim = shape_.padded_dim, columns = whole_vectors(block.columns);
    const auto product = [&](const float* rows, const float* transposed, float* result) {
      for_seen_parts(seen_rows, block.i, block.rows, block.j, block.j + columns, [&](const SeenPart& part) {
        block_product(part.rows, part.columns(), shape_.head_dim, {rows + (block.i + part.row) * dim, dim, 1},
                      transposed + part.first, shape_.padded_sequence,
                      result + part.row * kKeyBlock + part.first - block.j, kKeyBlock, false);
      });
    };
    product(arrays.queries, arrays.keys_transposed, arrays.probabilities);
    product(arrays.dy, arrays.values_transposed, arrays.dscores);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t i = block.i + row;
      const std::int64_t seen = std::clamp<std::int64_t>(seen_rows.end(i) - block.j, 0, block.columns);
      const std::int64_t whole = whole_vectors(seen);
      float* probabilities = arrays.probabilities + row * kKeyBlock;
      float* dscores = arrays.dscores + row * kKeyBlock;
      const float row_logsumexp = logsumexp[row * shape_.heads], product = arrays.products[row];
      if (shape_.softcap > 0) cap_scores(probabilities, arrays.slopes, whole, shape_.softcap);
      if (mask.keeps_all()) {
        differentiate(probabilities, dscores, whole, row_logsumexp, product);
      } else {
        const std::uint32_t* word =
            random_words(mask.key, shape_.probability_index(task, i, block.j), whole, arrays.words);
        differentiate_dropped(probabilities, dscores, whole, row_logsumexp, product, mask, word);
      }
      if (shape_.softcap > 0) multiply(dscores, arrays.slopes, whole);
      fill_tail(probabilities, seen, 0);
      fill_tail(dscores, seen, 0);
      const std::int64_t unseen = std::clamp<std::int64_t>(seen_rows.first(i) - block.j, 0, columns);
      std::fill(probabilities, probabilities + unseen, 0.0f);
      std::fill(dscores, dscores + unseen, 0.0f);
      std::fill(probabilities + whole, probabilities + columns, 0.0f);
      std::fill(dscores + whole, dscores + columns, 0.0f);
    }
  }

  static void multiply(float* values, const float* factors, std::int64_t count) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) values[j] *= factors[j];
  }

  static void differentiate(float* scores, float* dscores, std::int64_t count, float logsumexp, float product) {
    const VectorExp exp;
    for (std::int64_t j = 0; j < count; j += kLanes) {
      const FloatVector probabilities = exp(load_vector(scores + j) - logsumexp);
      store_vector(scores + j, probabilities);
      store_vector(dscores + j, probabilities * (load_vector(dscores + j) - product));
    }
  }

  static void differentiate_dropped(float* scores, float* dscores, std::int64_t count, float logsumexp, float product,
                                    const DropoutMask& mask, const std::uint32_t* word) {
    const std::uint32_t threshold = mask.threshold;  // copies, which the stores below cannot alias
    const float scale = mask.scale;
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      const float probability = fast_exp(scores[j] - logsumexp);
      const float kept = word[j] >= threshold ? scale : 0.0f;
      scores[j] = probability * kept;
      dscores[j] = probability * (dscores[j] * kept - product);
    }
  }

  // `begins`: it is the first block of these queries.
  void add_gradients(const Block& block, const SeenRows& seen, bool begins, const Arrays& arrays) const {
    const std::int64_t dim = shape_.padded_dim;
    // Keys [key, key + count) of the block, by its queries from `row` on.
    const auto add_to_keys = [&](std::int64_t key, std::int64_t count, std::int64_t row) {
      const std::int64_t rows = block.rows - row, at = row * kKeyBlock + key, query = (block.i + row) * dim;
      block_product(count, dim, rows, {arrays.probabilities + at, 1, kKeyBlock}, arrays.dy + query, dim,
                    arrays.dv + (block.j + key) * dim, dim, true);
      block_product(count, dim, rows, {arrays.dscores + at, 1, kKeyBlock}, arrays.queries + query, dim,
                    arrays.dk + (block.j + key) * dim, dim, true);
    };
    const std::int64_t seen_by_all = std::max<std::int64_t>(seen.end(block.i) - block.j, 0);
    const std::int64_t common = std::min((seen_by_all + kSlice - 1) / kSlice * kSlice, block.columns);
    add_to_keys(0, common, 0);
    for (std::int64_t key = common, row = 0; key < block.columns; key += kSlice) {
      while (seen.end(block.i + row) <= block.j + key) ++row;
      add_to_keys(key, std::min(kSlice, block.columns - key), row);
    }
    for_seen_parts(seen, block.i, block.rows, block.j, block.j + block.columns, [&](const SeenPart& part) {
      block_product(
          part.rows, dim, part.columns(), {arrays.dscores + part.row * kKeyBlock + part.first - block.j, kKeyBlock, 1},
          arrays.keys + part.first * dim, dim, arrays.dq + part.row * dim, dim, !begins || part.first > block.j);
    });
  }
};

}  // namespace

const Factory make_attention_backward = make_for_input<AttentionBackward, 1>;

}  // namespace l2l::device::kernels
