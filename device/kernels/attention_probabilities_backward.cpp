#include "device/kernels/block_product.h"
#include "device/kernels/core_attention.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {
namespace {

struct Arrays : SlotArrays {
  using SlotArrays::SlotArrays;
  float* keys = matrix(shape.sequence, shape.padded_dim);
  float* queries = matrix(kQueryBlock, shape.padded_dim);  // scaled
  float* probabilities = matrix(kQueryBlock, shape.padded_sequence);
  float* dscores = matrix(kQueryBlock, shape.padded_sequence);  // first dprobabilities
  float* dq = matrix(kQueryBlock, shape.padded_dim);
  float* dk = matrix(shape.sequence, shape.padded_dim);
  const std::int64_t capped = shape.softcap > 0 ? 1 : 0;
  float* transposed = matrix(capped * shape.padded_dim, shape.padded_sequence);  // keys, where scores are capped
  float* scores = matrix(capped * kQueryBlock, shape.padded_sequence);           // likewise
};

// Turns the gradients of `count` probabilities into those of their scores.
void differentiate_softmax(const float* probabilities, float* gradients, std::int64_t count) {
  const float product = sum_of(count, [=](std::int64_t j) { return probabilities[j] * gradients[j]; });
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) gradients[j] = probabilities[j] * (gradients[j] - product);
}

// With P the probabilities and D = dP . P per row: dS = P (dP - D), dq = dS k / sqrt(d), dk = dS^T q / sqrt(d). The
// queries that share a head of keys are taken in ascending order, on one thread.
template <typename T>
class AttentionProbabilitiesBackward final : public AttentionKernel<Arrays> {
 public:
  AttentionProbabilitiesBackward(const OpView& op)
      : AttentionKernel(op.input(2), op.attributes), other_(op.inputs.size() > 3) {
    op.require_dtype(op.input(2).dtype, {0, 1, 3});
    if (other_) op.require_dtype(op.input(2).dtype, {4});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t sharers = shape_.sharers();
    in_slots(shape_.tasks() / sharers, workspace, workers, [&](std::int64_t group, const Arrays& arrays) {
      const std::int64_t first = group * sharers, begin = shape_.first_row(first) * shape_.width;
      const T* other = other_ ? as<T>(operands[3]) + begin : nullptr;
      T* dqkv = as<T>(operands.back()) + begin;
      load_head(shape_, as<T>(operands[2]) + begin + shape_.key_column(first), shape_.width, shape_.sequence, 1.0f,
                arrays.keys);
      if (shape_.softcap > 0) transpose_head(shape_, arrays.keys, shape_.sequence, arrays.transposed);
      std::fill(arrays.dk, arrays.dk + shape_.sequence * shape_.padded_dim, 0.0f);
      for (std::int64_t task = first; task < first + sharers; ++task) take(operands, task, other, dqkv, arrays);
      store(arrays.dk, shape_.sequence, 1.0f, shape_.key_column(first), other, dqkv);
      store(nullptr, shape_.sequence, 1.0f, shape_.value_column(first), other, dqkv);
    });
  }

 private:
  void take(Operands operands, std::int64_t task, const T* other, T* dqkv, const Arrays& arrays) const {
    const std::int64_t dim = shape_.padded_dim, stride = shape_.padded_sequence;
    const SeenRows seen_rows(shape_, nullptr, task);  // probabilities of other documents are 0
    const T* qkv = as<T>(operands[2]) + shape_.first_row(task) * shape_.width;
    for_query_blocks(0, shape_.sequence, [&](QueryBlock block) {
      const std::int64_t seen = seen_by(seen_rows, block);
      const std::int64_t place = block.begin * shape_.width + shape_.first_column(task);
      load_head(shape_, qkv + place, shape_.width, block.rows, shape_.scale, arrays.queries);
      load_probabilities(seen_rows, as<T>(operands[0]), task, block, arrays.dscores);
      load_probabilities(seen_rows, as<T>(operands[1]), task, block, arrays.probabilities);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        differentiate_softmax(arrays.probabilities + row * stride, arrays.dscores + row * stride,
                              whole_vectors(seen_rows.end(block.begin + row)));
      }
      if (shape_.softcap > 0) differentiate_caps(block, whole_vectors(seen), arrays);
      block_product(block.rows, dim, seen, {arrays.dscores, stride, 1}, arrays.keys, dim, arrays.dq, dim, false);
      block_product(seen, dim, block.rows, {arrays.dscores, 1, stride}, arrays.queries, dim, arrays.dk, dim, true);
      store(arrays.dq, block.rows, shape_.scale, place, other, dqkv);
    });
  }

  // Multiplies the gradients of capped scores by the slopes, for which the scores are made again.
  void differentiate_caps(QueryBlock block, std::int64_t columns, const Arrays& arrays) const {
    const std::int64_t stride = shape_.padded_sequence;
    block_product(block.rows, columns, shape_.head_dim, {arrays.queries, shape_.padded_dim, 1}, arrays.transposed,
                  stride, arrays.scores, stride, false);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      float* const scores = arrays.scores + row * stride;
      float* const dscores = arrays.dscores + row * stride;
      const float inverse = 1.0f / shape_.softcap;
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) {
        const float share = fast_tanh(scores[j] * inverse);
        dscores[j] *= 1.0f - share * share;
      }
    }
  }

  // Writes a head's gradient, `place` elements from the start of the sequence.
  void store(const float* gradient, std::int64_t rows, float scale, std::int64_t place, const T* other, T* dqkv) const {
    store_head_sum(shape_, gradient, rows, scale, other == nullptr ? nullptr : other + place, dqkv + place,
                   shape_.width);
  }

  bool other_;
};

}  // namespace

const Factory make_attention_probabilities_backward = make_for_input<AttentionProbabilitiesBackward, 2>;

}  // namespace l2l::device::kernels
