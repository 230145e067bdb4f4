#include <cmath>
#include <limits>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

// Rows first put their keys and values into the cache, then each head of each row reads it: scores, softmax, mix, all
// in fp32. 4 d operations for each row that is seen, d elements of a head.
template <typename T>
class CachedAttention final : public Kernel {
 public:
  CachedAttention(const OpView& op)
      : rows_(op.input(0).shape[0]),
        width_(op.input(0).shape[1]),
        sequence_(op.attributes.sequence),
        capacity_(op.attributes.capacity),
        heads_(op.attributes.heads),
        kv_heads_(compiler::kv_heads(op.attributes)),
        head_dim_(width_ / (heads_ + 2 * kv_heads_)),
        window_(op.attributes.window > 0 ? op.attributes.window : capacity_),
        softcap_(op.attributes.softcap),
        scale_(op.attributes.scale > 0 ? op.attributes.scale : 1.0f / std::sqrt(static_cast<float>(head_dim_))) {
    op.require_dtype(op.input(0).dtype, {2, 3});
  }

  Bytes workspace(int threads) const override { return slot_bytes() * static_cast<Bytes>(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const T* const qkv = as<const T>(operands[0]);
    const std::int32_t *const begins = as<const std::int32_t>(operands[1]), *const ends = begins + rows_;
    T *const y = as<T>(operands[2]), *const cache = as<T>(operands[3]);
    const Partition rows = row_blocks(rows_, cached());
    workers.parallel_for(rows.count(), [&](std::int64_t block, int) {
      for (std::int64_t row = rows.begin(block); row < rows.end(block); ++row) {
        check(row, begins[row], ends[row]);
        if (ends[row] == 0) continue;
        const T* const own = qkv + row * width_ + heads_ * head_dim_;
        std::copy(own, own + cached(), cache + row_of_cache(row, ends[row] - 1) * cached());
      }
    });
    workers.parallel_for(rows_ * heads_, [&](std::int64_t task, int slot) {
      const std::int64_t row = task / heads_, head = task % heads_, end = ends[row];
      float* const slot_floats = as<float>(workspace + slot_bytes() * static_cast<Bytes>(slot));
      const std::int64_t first = std::max<std::int64_t>(begins[row], end - window_);
      const T* const seen = cache + row_of_cache(row, first) * cached() + head / (heads_ / kv_heads_) * head_dim_;
      attend(qkv + row * width_ + head * head_dim_, seen, end > 0 ? end - first : 0, slot_floats,
             y + (row * heads_ + head) * head_dim_);
    });
  }

 private:
  std::int64_t cached() const { return 2 * kv_heads_ * head_dim_; }  // elements of a row of the cache
  std::int64_t row_of_cache(std::int64_t row, std::int64_t place) const { return row / sequence_ * capacity_ + place; }
  Bytes slot_bytes() const { return align_up(static_cast<Bytes>(capacity_ + 2 * head_dim_) * sizeof(float), 64); }

  void check(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    if (end >= 0 && end <= capacity_ && (end == 0 || (begin >= 0 && begin < end))) return;
    throw BadInput("cached_attention: row " + std::to_string(row) + " sees rows [" + std::to_string(begin) + ", " +
                   std::to_string(end) + ") of a cache of " + std::to_string(capacity_));
  }

  // `keys`: those of the first row that is seen; values lie behind the keys of all heads.
  void attend(const T* query, const T* keys, std::int64_t count, float* floats, T* y) const {
    float *const q = floats, *const sums = floats + head_dim_, *const scores = floats + 2 * head_dim_;
    std::fill(sums, sums + head_dim_, 0.0f);
    for (std::int64_t d = 0; d < head_dim_; ++d) q[d] = widen(query[d]) * scale_;
    for (std::int64_t j = 0; j < count; ++j) {
      const T* const key = keys + j * cached();
      const float score = sum_of(head_dim_, [&](std::int64_t d) { return q[d] * widen(key[d]); });
      scores[j] = softcap_ > 0 ? softcap_ * std::tanh(score / softcap_) : score;
    }
    float factor = 0;
    if (count > 0) {
      const float highest = largest_of(scores, count);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) scores[j] = fast_exp(scores[j] - highest);
      factor = 1.0f / sum_of(count, [scores](std::int64_t j) { return scores[j]; });
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const T* const value = keys + j * cached() + kv_heads_ * head_dim_;
      const float weight = scores[j] * factor;
#pragma omp simd
      for (std::int64_t d = 0; d < head_dim_; ++d) sums[d] += weight * widen(value[d]);
    }
#pragma omp simd
    for (std::int64_t d = 0; d < head_dim_; ++d) y[d] = narrow<T>(sums[d]);
  }

  std::int64_t rows_, width_, sequence_, capacity_, heads_, kv_heads_, head_dim_, window_;
  float softcap_, scale_;
};

}  // namespace

const Factory make_cached_attention = make_for_output<CachedAttention>;

}  // namespace l2l::device::kernels
