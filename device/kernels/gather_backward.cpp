#include <algorithm>

#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/gather.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {
namespace {

// Some columns of one sample at a time, summed in fp32.
template <typename T>
class GatherBackward final : public Kernel {
 public:
  GatherBackward(const OpView& op)
      : samples_(op), strips_{op.output(0).shape[1], std::min<std::int64_t>(kMostColumns, op.output(0).shape[1])} {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(op.output(0).dtype, {1});
  }

  Bytes workspace(int threads) const override { return static_cast<Bytes>(threads * sums()) * sizeof(float); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* const indices = as<std::int32_t>(operands[0]);
    const T* const dy = as<T>(operands[1]);
    T* const dx = as<T>(operands[2]);
    workers.parallel_for(samples_.samples * strips_.count(), [&](std::int64_t job, int slot) {
      const std::int64_t sample = job / strips_.count(), strip = job % strips_.count(), columns = strips_.total;
      const std::int64_t first = strips_.begin(strip), count = strips_.end(strip) - first;
      float* const totals = as<float>(workspace) + slot * sums();
      std::fill_n(totals, samples_.rows * strips_.size, 0.0f);
      for (std::int64_t i = sample * samples_.taken; i < (sample + 1) * samples_.taken; ++i) {
        float* const total = totals + samples_.checked("gather_backward", indices, i) * strips_.size;
        const T* const from = dy + i * columns + first;
        for (std::int64_t c = 0; c < count; ++c) total[c] += widen(from[c]);
      }
      for (std::int64_t row = 0; row < samples_.rows; ++row) {
        narrow_row(totals + row * strips_.size, dx + (sample * samples_.rows + row) * columns + first, count);
      }
    });
  }

 private:
  static constexpr std::int64_t kMostColumns = 64;

  std::int64_t sums() const { return samples_.rows * strips_.size; }

  GatheredSamples samples_;
  Partition strips_;  // of columns
};

}  // namespace

const Factory make_gather_backward = make_for_output<GatherBackward>;

}  // namespace l2l::device::kernels
