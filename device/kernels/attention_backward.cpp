#include <algorithm>

#include "device/kernels/attention_tiles.h"
#include "device/kernels/attention_vectors.h"
#include "device/kernels/factories.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

// With P the probabilities, M the dropout mask with its scale and D = dy . y per row: dv = (P M)^T dy,
// dS = P (M (dy v^T) - D), dq = dS k / sqrt(d), dk = dS^T q / sqrt(d). P is recomputed from logsumexp. The queries
// that share a head of keys are taken in ascending order, on one thread.
// T. Dao et al., "FlashAttention", NeurIPS 2022, appendix B.2.
//
// `Slot`: VectorGradients or TileGradients.
template <typename T, typename Slot>
class AttentionBackward final : public AttentionKernel<Slot> {
 public:
  AttentionBackward(const OpView& op) : AttentionKernel<Slot>(op.input(1), op.attributes) {
    Slot::pad(shape_);
    op.require_dtype(op.input(1).dtype, {0, 2, op.inputs.size()});
    op.require_dtype(DType::f32, {3});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    const DropoutMask mask(parameters, shape_.rng_op, shape_.probability);
    const std::int64_t sharers = shape_.sharers();
    this->in_slots(shape_.tasks() / sharers, workspace, workers, [&](std::int64_t group, const Slot& slot) {
      [[maybe_unused]] const typename Slot::Setup setup;
      load_keys(operands, group * sharers, slot);
      for (std::int64_t task = group * sharers; task < (group + 1) * sharers; ++task) {
        load_queries(operands, task, slot);
        for (std::int64_t i = 0; i < shape_.sequence; i += Slot::kQueries) {
          take_queries(operands, task, i, mask, slot);
        }
      }
      T* dqkv = gradient_of(operands, group * sharers);
      slot.store_keys(dqkv + shape_.key_column(group * sharers), dqkv + shape_.value_column(group * sharers),
                      shape_.width);
    });
  }

 private:
  using AttentionKernel<Slot>::shape_;

  // dqkv from the task's sequence on.
  T* gradient_of(Operands operands, std::int64_t task) const {
    return as<T>(operands.back()) + shape_.first_row(task) * shape_.width;
  }

  void load_keys(Operands operands, std::int64_t task, const Slot& slot) const {
    const T* qkv = as<T>(operands[1]) + shape_.first_row(task) * shape_.width;
    slot.load_keys(qkv + shape_.key_column(task), qkv + shape_.value_column(task), shape_.width);
  }

  void load_queries(Operands operands, std::int64_t task, const Slot& slot) const {
    const std::int64_t row = shape_.first_row(task), column = shape_.first_column(task);
    slot.load_queries(as<T>(operands[1]) + row * shape_.width + column, shape_.width,
                      as<T>(operands[0]) + row * shape_.hidden + column, shape_.hidden);
  }

  void take_queries(Operands operands, std::int64_t task, std::int64_t i, const DropoutMask& mask,
                    const Slot& slot) const {
    const std::int64_t rows = std::min(Slot::kQueries, shape_.sequence - i);
    T* const dq = gradient_of(operands, task) + i * shape_.width + shape_.first_column(task);
    for (std::int64_t row = 0; row < rows; ++row) prefetch_head(shape_, dq + row * shape_.width);
    const T* y = as<T>(operands[2]) + (shape_.first_row(task) + i) * shape_.hidden + shape_.first_column(task);
    for (std::int64_t row = 0; row < rows; ++row) {
      slot.products[row] = slot.product(i + row, y + row * shape_.hidden);
    }
    const float* logsumexp = as<float>(operands[3]) + (shape_.first_row(task) + i) * shape_.heads + task % shape_.heads;
    const SeenRows seen(shape_, operands.size() > 5 ? operands[4] : nullptr, task);
    const std::int64_t all = seen.end(i + rows - 1), first = seen.first(i) / Slot::kKeys * Slot::kKeys;
    for (std::int64_t j = first; j < all; j += Slot::kKeys) {
      const AttentionBlock block{i, rows, j, std::min(Slot::kKeys, all - j)};
      slot.score(block, seen);
      differentiate_scores(block, seen, task, logsumexp, mask, slot);
      slot.add(block, seen, /*begins=*/j == first);
    }
    store_head(shape_, slot.dq, rows, shape_.scale, dq, shape_.width);
  }

  // Turns scores into probabilities (dropped and scaled), and dy v^T into gradients of scores.
  void differentiate_scores(const AttentionBlock& block, const SeenRows& seen_rows, std::int64_t task,
                            const float* logsumexp, const DropoutMask& mask, const Slot& slot) const {
    const std::int64_t columns = Slot::end(block.columns);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t i = block.i + row;
      const std::int64_t seen = std::clamp<std::int64_t>(seen_rows.end(i) - block.j, 0, block.columns);
      const std::int64_t whole = whole_vectors(seen);
      float* probabilities = slot.probabilities + row * Slot::kKeys;
      float* dscores = slot.dscores + row * Slot::kKeys;
      const float row_logsumexp = logsumexp[row * shape_.heads], product = slot.products[row];
      if (!Slot::kScaled) multiply(probabilities, whole, shape_.scale);
      if (shape_.softcap > 0) cap_scores(probabilities, slot.slopes, whole, shape_.softcap);
      if (mask.keeps_all()) {
        differentiate(probabilities, dscores, whole, row_logsumexp, product);
      } else {
        with_draws(mask, shape_.dropout_index(task, i, block.j), whole, slot.words,
                   [&](const auto* drawn, auto threshold) {
                     differentiate_dropped(probabilities, dscores, whole, row_logsumexp, product, mask.scale, drawn,
                                           threshold);
                   });
      }
      if (shape_.softcap > 0) multiply(dscores, whole, slot.slopes);
      fill_tail(probabilities, seen, 0);
      fill_tail(dscores, seen, 0);
      const std::int64_t unseen = std::clamp<std::int64_t>(seen_rows.first(i) - block.j, 0, columns);
      std::fill(probabilities, probabilities + unseen, 0.0f);
      std::fill(dscores, dscores + unseen, 0.0f);
      std::fill(probabilities + whole, probabilities + columns, 0.0f);
      std::fill(dscores + whole, dscores + columns, 0.0f);
    }
  }

  static void differentiate(float* scores, float* dscores, std::int64_t count, float logsumexp, float product) {
    const VectorExp exp;
    for (std::int64_t j = 0; j < count; j += kLanes) {
      const FloatVector probabilities = exp(load_vector(scores + j) - logsumexp);
      store_vector(scores + j, probabilities);
      store_vector(dscores + j, probabilities * (load_vector(dscores + j) - product));
    }
  }

  template <typename Draw>
  static void differentiate_dropped(float* scores, float* dscores, std::int64_t count, float logsumexp, float product,
                                    float scale, const Draw* drawn, Draw threshold) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      const float probability = fast_exp(scores[j] - logsumexp);
      const float kept = drawn[j] >= threshold ? scale : 0.0f;
      scores[j] = probability * kept;
      dscores[j] = probability * (dscores[j] * kept - product);
    }
  }
};

template <typename T>
using VectorAttentionBackward = AttentionBackward<T, VectorGradients<T>>;

std::unique_ptr<Kernel> choose(const OpView& op) {
  if (op.input(1).dtype == DType::bf16 && has_tiles()) {
    return std::make_unique<AttentionBackward<bf16, TileGradients>>(op);
  }
  return make_for_input<VectorAttentionBackward, 1>(op);
}

}  // namespace

const Factory make_attention_backward = choose;

}  // namespace l2l::device::kernels
