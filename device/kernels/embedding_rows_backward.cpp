#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// Each task owns some columns of the table and adds the rows in ascending order: equal tokens meet in one thread.
constexpr std::int64_t kColumns = 32;

template <typename T>
class EmbeddingRowsBackward final : public Kernel {
 public:
  EmbeddingRowsBackward(const OpView& op)
      : rows_(op.input(1).shape[0]),
        hidden_(op.input(1).shape[1]),
        chunk_(op.output(0).shape[0]),
        factor_(rounded_to(op.input(1).dtype, op.attributes.factor)) {
    op.require_dtype(DType::i32, {0});
    op.require_dtype(DType::f32, {2});
  }

  void run(Operands operands, std::byte*, const LaunchParameters& parameters, Workers& workers) const override {
    const std::int32_t* tokens = as<std::int32_t>(operands[0]);
    const Partition columns{hidden_, kColumns};
    workers.parallel_for(columns.count(), [&](std::int64_t block, int) {
      const std::int64_t begin = columns.begin(block), count = columns.end(block) - begin;
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t token = tokens[row] - parameters.first_token;
        if (token < 0 || token >= chunk_) continue;
        const T* dy = as<T>(operands[1]) + row * hidden_ + begin;
        float* table = as<float>(operands[2]) + token * hidden_ + begin;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) table[i] += widen(dy[i]) * factor_;
      }
    });
  }

 private:
  std::int64_t rows_, hidden_, chunk_;
  float factor_;
};

}  // namespace

const Factory make_embedding_rows_backward = make_for_input<EmbeddingRowsBackward, 1>;

}  // namespace l2l::device::kernels
