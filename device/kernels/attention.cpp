#include "device/kernels/attention.h"

#include "device/kernels/block_product.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

struct Arrays : SlotArrays {
  using SlotArrays::SlotArrays;
  float* queries = matrix(kQueryBlock, shape.padded_dim);  // scaled
  float* rows = matrix(shape.sequence, shape.padded_dim);  // keys, then values
  float* keys = matrix(shape.padded_dim, shape.padded_sequence);
  float* scores = matrix(kQueryBlock, shape.padded_sequence);
  float* sums = matrix(kQueryBlock, shape.padded_dim);
  std::uint32_t* words = take<std::uint32_t>(random_words_room(shape.padded_sequence));
};

// Calls take(i, turn) for each vector of `count` elements, which are whole vectors, with turn = 0, 1, 2, 3, 0, ...:
// four running results, none of which waits for the last step's.
template <typename Take>
inline __attribute__((always_inline)) void in_turns(std::int64_t count, const Take& take) {
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int turn = 0; turn < 4; ++turn) take(i + turn * kLanes, turn);
  }
#pragma GCC unroll 4
  for (int turn = 0; turn < 4; ++turn) {
    if (i + turn * kLanes < count) take(i + turn * kLanes, turn);
  }
}

float largest_score(const float* scores, std::int64_t count) {
  FloatVector largest[4];
  for (FloatVector& each : largest) each = FloatVector{} + scores[0];
  in_turns(count, [&](std::int64_t i, int turn) {
    const FloatVector next = load_vector(scores + i);
    largest[turn] = next > largest[turn] ? next : largest[turn];
  });
  for (int turn = 1; turn < 4; ++turn) largest[0] = largest[turn] > largest[0] ? largest[turn] : largest[0];
  float lanes[kLanes];
  store_vector(lanes, largest[0]);
  return largest_of(lanes, kLanes);
}

// Turns scores[0, count), whole vectors, into e^(score - highest) and puts their sum, in sum_of()'s order, into `sum`;
// returns the logsumexp.
float exponentials(float* scores, std::int64_t count, float& sum) {
  const float highest = largest_score(scores, count);
  const VectorExp exp;
  FloatVector partial[4] = {};
  in_turns(count, [&](std::int64_t i, int turn) {
    const FloatVector exponential = exp(load_vector(scores + i) - highest);
    store_vector(scores + i, exponential);
    partial[turn] += exponential;
  });
  sum = sum_of_lanes((partial[0] + partial[1]) + (partial[2] + partial[3]));
  return highest + std::log(sum);
}

template <typename T>
class Attention final : public AttentionKernel<Arrays> {
 public:
  Attention(const OpView& op)
      : AttentionKernel(op.input(0), op.attributes), splits_(query_parts(shape_)), y_(op.inputs.size()) {
    op.require_dtype(op.input(0).dtype, {y_});
    op.require_dtype(DType::f32, {y_ + 1});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    const DropoutMask mask(parameters, shape_.rng_op, shape_.probability);
    in_slots(shape_.tasks() * splits_.count(), workspace, workers, [&](std::int64_t block, const Arrays& arrays) {
      const std::int64_t part = block % splits_.count();
      attend(operands, block / splits_.count(), splits_.begin(part), splits_.end(part), mask, arrays);
    });
  }

 private:
  // Queries [begin, end) of one head.
  void attend(Operands operands, std::int64_t task, std::int64_t begin, std::int64_t end, const DropoutMask& mask,
              const Arrays& arrays) const {
    const SeenRows seen_rows(shape_, y_ > 1 ? operands[1] : nullptr, task);
    const std::int64_t row = shape_.first_row(task), stride = shape_.width, seen = seen_rows.end(end - 1);
    const T* qkv = as<T>(operands[0]) + row * stride;
    const T* head = qkv + shape_.first_column(task);
    load_head(shape_, qkv + shape_.key_column(task), stride, seen, 1.0f, arrays.rows);
    transpose_head(shape_, arrays.rows, seen, arrays.keys);
    load_head(shape_, qkv + shape_.value_column(task), stride, seen, 1.0f, arrays.rows);
    T* y = as<T>(operands[y_]) + row * shape_.hidden + shape_.first_column(task);
    float* logsumexp = as<float>(operands[y_ + 1]) + row * shape_.heads + task % shape_.heads;
    for (std::int64_t i = begin; i < end; i += kQueryBlock) {
      const std::int64_t rows = std::min(kQueryBlock, end - i);
      load_head(shape_, head + i * stride, stride, rows, shape_.scale, arrays.queries);
      for (std::int64_t row = i; row < i + rows; ++row) prefetch_head(shape_, y + row * shape_.hidden);
      attend_block(seen_rows, task, i, rows, mask, arrays, logsumexp);
      store_head(shape_, arrays.sums, rows, 1.0f, y + i * shape_.hidden, shape_.hidden);
    }
  }

  void attend_block(const SeenRows& seen_rows, std::int64_t task, std::int64_t i, std::int64_t rows,
                    const DropoutMask& mask, const Arrays& arrays, float* logsumexp) const {
    const std::int64_t begin = seen_rows.first_vector(i), seen = seen_rows.end(i + rows - 1);
    const std::int64_t stride = shape_.padded_sequence, dim = shape_.padded_dim;
    for_seen_parts(seen_rows, i, rows, begin, whole_vectors(seen), [&](const SeenPart& part) {
      block_product(part.rows, part.columns(), shape_.head_dim, {arrays.queries + part.row * dim, dim, 1},
                    arrays.keys + part.first, stride, arrays.scores + part.row * stride + part.first, stride, false);
    });
    for (std::int64_t row = 0; row < rows; ++row) {
      float* const line = arrays.scores + row * stride;
      float* const scores = line + begin;
      const std::int64_t own = seen_rows.end(i + row), first = seen_rows.first(i + row) - begin;
      const std::int64_t whole = whole_vectors(own), count = whole - begin;
      if (shape_.softcap > 0) cap_scores(scores, count, shape_.softcap);
      fill_tail(line, own, kMasked);
      std::fill(scores, scores + first, kMasked);
      float sum = 0;
      logsumexp[(i + row) * shape_.heads] = exponentials(scores, count, sum);
      weigh(scores, count, mask, shape_.probability_index(task, i + row, begin), 1.0f / sum, arrays.words);
      fill_tail(line, own, 0);
      std::fill(scores, scores + first, 0.0f);
      std::fill(line + whole, line + std::max(seen, whole), 0.0f);
    }
    for_seen_parts(seen_rows, i, rows, begin, seen, [&](const SeenPart& part) {
      block_product(part.rows, dim, part.columns(), {arrays.scores + part.row * stride + part.first, stride, 1},
                    arrays.rows + part.first * dim, dim, arrays.sums + part.row * dim, dim, part.first > begin);
    });
  }

  // Exponentials to probabilities after dropout.
  static void weigh(float* scores, std::int64_t count, const DropoutMask& mask, std::int64_t index, float factor,
                    std::uint32_t* words) {
    if (mask.keeps_all()) {
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) scores[j] *= factor;
      return;
    }
    const std::uint32_t* word = random_words(mask.key, index, count, words);
    const std::uint32_t threshold = mask.threshold;
    factor *= mask.scale;
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      const float probability = scores[j] * factor;
      scores[j] = word[j] >= threshold ? probability : 0.0f;
    }
  }

  Partition splits_;
  std::size_t y_;  // operand; documents may come before it
};

}  // namespace

const Factory make_attention = make_for_input<Attention>;

}  // namespace l2l::device::kernels
