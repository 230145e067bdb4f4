#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

// Each task owns some columns of both tables and adds the rows in ascending order: equal tokens meet in one thread.
constexpr std::int64_t kColumns = 32;

template <typename T>
class EmbeddingBackward final : public Kernel {
 public:
  EmbeddingBackward(const OpView& op)
      : rows_(op.input(1).shape[0]),
        hidden_(op.input(1).shape[1]),
        vocabulary_(op.output(0).shape[0]),
        sequence_(op.attributes.sequence),
        positions_(op.output(1).shape[0]),
        table_(op.inputs.size()) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(DType::f32, {table_, table_ + 1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    const std::int32_t* places = table_ > 2 ? as<std::int32_t>(operands[2]) : nullptr;
    const Partition columns{hidden_, kColumns};
    workers.parallel_for(columns.count(), [&](std::int64_t block, int) {
      const std::int64_t begin = columns.begin(block), count = columns.end(block) - begin;
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t token = checked_token("embedding_backward", tokens[row], row, vocabulary_);
        const T* dy = as<T>(operands[1]) + row * hidden_ + begin;
        float* table = as<float>(operands[table_]) + token * hidden_ + begin;
        const std::int64_t place = place_of("embedding_backward", places, row, sequence_, positions_);
        float* position = as<float>(operands[table_ + 1]) + place * hidden_ + begin;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
          const float gradient = widen(dy[i]);
          table[i] += gradient;
          position[i] += gradient;
        }
      }
    });
  }

 private:
  std::int64_t rows_, hidden_, vocabulary_, sequence_, positions_;
  std::size_t table_;  // operand; places may come before it
};

}  // namespace

const Factory make_embedding_backward = make_for_input<EmbeddingBackward, 1>;

}  // namespace l2l::device::kernels
