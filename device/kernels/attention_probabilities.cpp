#include "device/kernels/block_product.h"
#include "device/kernels/core_attention.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

struct Arrays : SlotArrays {
  using SlotArrays::SlotArrays;
  float* queries = matrix(kQueryBlock, shape.padded_dim);  // scaled
  float* rows = matrix(shape.sequence, shape.padded_dim);  // keys
  float* keys = matrix(shape.padded_dim, shape.padded_sequence);
  float* scores = matrix(kQueryBlock, shape.padded_sequence);
};

// Turns `count` scores, whole vectors, into probabilities.
void softmax(float* scores, std::int64_t count) {
  const float highest = largest_of(scores, count);
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) scores[j] = fast_exp(scores[j] - highest);
  const float factor = 1.0f / sum_of(count, [scores](std::int64_t j) { return scores[j]; });
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) scores[j] *= factor;
}

template <typename T>
class AttentionProbabilities final : public AttentionKernel<Arrays> {
 public:
  AttentionProbabilities(const OpView& op)
      : AttentionKernel(op.input(0), op.attributes), parts_(query_parts(shape_)), documents_(op.inputs.size() > 1) {
    op.require_dtype(op.input(0).dtype, {op.inputs.size()});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    in_slots(shape_.tasks() * parts_.count(), workspace, workers, [&](std::int64_t index, const Arrays& arrays) {
      const std::int64_t task = index / parts_.count(), part = index % parts_.count();
      const SeenRows seen(shape_, documents_ ? operands[1] : nullptr, task);
      const T* qkv = as<T>(operands[0]) + shape_.first_row(task) * shape_.width;
      load_keys(qkv + shape_.key_column(task), seen.end(parts_.end(part) - 1), arrays);
      for_query_blocks(parts_.begin(part), parts_.end(part), [&](QueryBlock block) {
        load_head(shape_, qkv + block.begin * shape_.width + shape_.first_column(task), shape_.width, block.rows,
                  shape_.scale, arrays.queries);
        take(seen, block, arrays);
        store_probabilities(seen, arrays.scores, task, block, as<T>(operands.back()));
      });
    });
  }

 private:
  void load_keys(const T* keys, std::int64_t rows, const Arrays& arrays) const {
    load_head(shape_, keys, shape_.width, rows, 1.0f, arrays.rows);
    transpose_head(shape_, arrays.rows, rows, arrays.keys);
  }

  void take(const SeenRows& seen, QueryBlock block, const Arrays& arrays) const {
    const std::int64_t stride = shape_.padded_sequence;
    block_product(block.rows, whole_vectors(seen_by(seen, block)), shape_.head_dim,
                  {arrays.queries, shape_.padded_dim, 1}, arrays.keys, stride, arrays.scores, stride, false);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t i = block.begin + row, own = seen.end(i);
      float* const scores = arrays.scores + row * stride;
      if (shape_.softcap > 0) cap_scores(scores, whole_vectors(own), shape_.softcap);
      fill_tail(scores, own, kMasked);
      std::fill(scores, scores + seen.first(i), kMasked);
      softmax(scores, whole_vectors(own));
    }
  }

  Partition parts_;
  bool documents_;
};

}  // namespace

const Factory make_attention_probabilities = make_for_input<AttentionProbabilities>;

}  // namespace l2l::device::kernels
