#include "device/kernels/attention_tiles.h"
#include "device/kernels/attention_vectors.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

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

// Turns scores[0, count), whole vectors, each times `scale` unless they are scaled, into e^(score - highest) and puts
// their sum, in sum_of()'s order, into `sum`; returns the logsumexp.
template <bool kScaled>
float exponentials(float* scores, std::int64_t count, float scale, float& sum) {
  const float highest = largest_score(scores, count) * (kScaled ? 1.0f : scale);
  const VectorExp exp;
  FloatVector partial[4] = {};
  in_turns(count, [&](std::int64_t i, int turn) {
    const FloatVector score = kScaled ? load_vector(scores + i) : load_vector(scores + i) * scale;
    const FloatVector exponential = exp(score - highest);
    store_vector(scores + i, exponential);
    partial[turn] += exponential;
  });
  sum = sum_of_turns(partial);
  return highest + std::log(sum);
}

// `Slot`: VectorScores or TileScores.
template <typename T, typename Slot>
class Attention final : public AttentionKernel<Slot> {
 public:
  Attention(const OpView& op) : AttentionKernel<Slot>(op.input(0), op.attributes), y_(op.inputs.size()) {
    Slot::pad(shape_);
    splits_ = query_parts(shape_, Slot::kQueries);
    op.require_dtype(op.input(0).dtype, {y_});
    op.require_dtype(DType::f32, {y_ + 1});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    const DropoutMask mask(parameters, shape_.rng_op, shape_.probability);
    this->in_slots(shape_.tasks() * splits_.count(), workspace, workers, [&](std::int64_t block, const Slot& slot) {
      const std::int64_t part = block % splits_.count();
      attend(operands, block / splits_.count(), splits_.begin(part), splits_.end(part), mask, slot);
    });
  }

 private:
  using AttentionKernel<Slot>::shape_;

  // Queries [begin, end) of one head.
  void attend(Operands operands, std::int64_t task, std::int64_t begin, std::int64_t end, const DropoutMask& mask,
              const Slot& slot) const {
    [[maybe_unused]] const typename Slot::Setup setup;
    const SeenRows seen_rows(shape_, y_ > 1 ? operands[1] : nullptr, task);
    const std::int64_t row = shape_.first_row(task), stride = shape_.width;
    const T* qkv = as<T>(operands[0]) + row * stride;
    const T* head = qkv + shape_.first_column(task);
    slot.load(qkv + shape_.key_column(task), qkv + shape_.value_column(task), stride, seen_rows.end(end - 1));
    T* y = as<T>(operands[y_]) + row * shape_.hidden + shape_.first_column(task);
    float* logsumexp = as<float>(operands[y_ + 1]) + row * shape_.heads + task % shape_.heads;
    for (std::int64_t i = begin; i < end; i += Slot::kQueries) {
      const std::int64_t rows = std::min(Slot::kQueries, end - i);
      slot.load_queries(head + i * stride, stride, rows);
      for (std::int64_t row = i; row < i + rows; ++row) prefetch_head(shape_, y + row * shape_.hidden);
      attend_block(seen_rows, task, i, rows, mask, slot, logsumexp);
      store_head(shape_, slot.sums, rows, 1.0f, y + i * shape_.hidden, shape_.hidden);
    }
  }

  void attend_block(const SeenRows& seen_rows, std::int64_t task, std::int64_t i, std::int64_t rows,
                    const DropoutMask& mask, const Slot& slot, float* logsumexp) const {
    const std::int64_t begin = Slot::begin(seen_rows.first(i)), seen = Slot::end(seen_rows.end(i + rows - 1));
    slot.score(seen_rows, i, rows, begin);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* const line = slot.scores + row * shape_.padded_sequence;
      float* const scores = line + begin;
      const std::int64_t own = seen_rows.end(i + row), first = seen_rows.first(i + row) - begin;
      const std::int64_t whole = whole_vectors(own), count = whole - begin;
      float scale = shape_.scale;
      if (shape_.softcap > 0) {
        if (!Slot::kScaled) multiply(scores, count, scale);
        cap_scores(scores, count, shape_.softcap);
        scale = 1;
      }
      fill_tail(line, own, kMasked);
      std::fill(scores, scores + first, kMasked);
      float sum = 0;
      logsumexp[(i + row) * shape_.heads] = exponentials<Slot::kScaled>(scores, count, scale, sum);
      weigh(scores, count, mask, shape_.dropout_index(task, i + row, begin), 1.0f / sum, slot.words);
      fill_tail(line, own, 0);
      std::fill(scores, scores + first, 0.0f);
      std::fill(line + whole, line + std::max(seen, whole), 0.0f);
    }
    slot.mix(seen_rows, i, rows, begin);
  }

  // Exponentials to probabilities after dropout.
  static void weigh(float* scores, std::int64_t count, const DropoutMask& mask, std::int64_t index, float factor,
                    std::uint32_t* words) {
    if (mask.keeps_all()) return multiply(scores, count, factor);
    factor *= mask.scale;
    with_draws(mask, index, count, words, [=](const auto* drawn, auto threshold) {
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) {
        const float probability = scores[j] * factor;
        scores[j] = drawn[j] >= threshold ? probability : 0.0f;
      }
    });
  }

  std::size_t y_;  // operand; documents may come before it
  Partition splits_;
};

template <typename T>
using VectorAttention = Attention<T, VectorScores<T>>;

std::unique_ptr<Kernel> choose(const OpView& op) {
  if (op.input(0).dtype == DType::bf16 && has_tiles()) return std::make_unique<Attention<bf16, TileScores>>(op);
  return make_for_input<VectorAttention>(op);
}

}  // namespace

const Factory make_attention = choose;

}  // namespace l2l::device::kernels
