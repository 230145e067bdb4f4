#include <cstring>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/random_words.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Dropout final : public Kernel {
 public:
  Dropout(const OpView& op)
      : elements_(op.output(0).shape.elements()),
        first_(op.attributes.shard.index * elements_),
        probability_(op.attributes.probability),
        rng_op_(op.attributes.rng_op) {
    op.require_dtype(op.output(0).dtype, {0});
    require_random_elements(op.attributes.shard.count * elements_, "dropout");
  }

  void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers& workers) const override {
    const DropoutMask mask(parameters, rng_op_, probability_);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      const std::int64_t begin = blocks.begin(block), count = blocks.end(block) - begin;
      const T* x = as<T>(operands[0]) + begin;
      T* y = as<T>(operands[1]) + begin;
      if (mask.keeps_all()) {
        std::memmove(y, x, static_cast<std::size_t>(count) * sizeof(T));
      } else {
        drop(mask, first_ + begin, x, y, count);
      }
    });
  }

 private:
  static void drop(const DropoutMask& mask, std::int64_t first, const T* x, T* y, std::int64_t count) {
    constexpr std::int64_t kElements = 512;
    const float scale = mask.scale;  // a copy, which the stores below cannot alias
    std::uint32_t words[random_words_room(kElements)];
    for (std::int64_t begin = 0; begin < count; begin += kElements) {
      const std::int64_t size = std::min(kElements, count - begin);
      with_draws(mask, first + begin, size, words, [=](const auto* drawn, auto threshold) {
#pragma omp simd
        for (std::int64_t i = 0; i < size; ++i) {
          const float value = widen(x[begin + i]) * scale;
          y[begin + i] = narrow<T>(drawn[i] >= threshold ? value : 0.0f);
        }
      });
    }
  }

  std::int64_t elements_;
  std::int64_t first_;  // of those of all devices
  float probability_;
  std::uint32_t rng_op_;
};

}  // namespace

const Factory make_dropout = make_for_output<Dropout>;

}  // namespace l2l::device::kernels
