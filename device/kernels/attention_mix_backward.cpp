#include "device/kernels/block_product.h"
#include "device/kernels/core_attention.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct Arrays : SlotArrays {
  using SlotArrays::SlotArrays;
  float* values = matrix(shape.sequence, shape.padded_dim);
  float* transposed = matrix(shape.padded_dim, shape.padded_sequence);  // values
  float* dy = matrix(kQueryBlock, shape.padded_dim);
  float* probabilities = matrix(kQueryBlock, shape.padded_sequence);
  float* dprobabilities = matrix(kQueryBlock, shape.padded_sequence);
  float* dv = matrix(shape.sequence, shape.padded_dim);
};

// dprobabilities = dy v^T, dv = probabilities^T dy. The queries that share a head of values are taken in ascending
// order, on one thread.
template <typename T>
class AttentionMixBackward final : public AttentionKernel<Arrays> {
 public:
  AttentionMixBackward(const OpView& op) : AttentionKernel(op.input(2), op.attributes) {
    op.require_dtype(op.input(2).dtype, {0, 1, 3, 4});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t sharers = shape_.sharers();
    in_slots(shape_.tasks() / sharers, workspace, workers, [&](std::int64_t group, const Arrays& arrays) {
      const std::int64_t first = group * sharers;
      load_values(as<T>(operands[2]), first, arrays);
      for (std::int64_t task = first; task < first + sharers; ++task) take(operands, task, arrays);
      store(as<T>(operands[4]) + shape_.first_row(first) * shape_.width, first, arrays);
    });
  }

 private:
  // Also clears the sums of their gradients.
  void load_values(const T* qkv, std::int64_t task, const Arrays& arrays) const {
    load_head(shape_, qkv + shape_.first_row(task) * shape_.width + shape_.value_column(task), shape_.width,
              shape_.sequence, 1.0f, arrays.values);
    transpose_head(shape_, arrays.values, shape_.sequence, arrays.transposed);
    std::fill(arrays.dv, arrays.dv + shape_.sequence * shape_.padded_dim, 0.0f);
  }

  void take(Operands operands, std::int64_t task, const Arrays& arrays) const {
    const std::int64_t dim = shape_.padded_dim, stride = shape_.padded_sequence;
    const SeenRows seen_rows(shape_, nullptr, task);
    const T* dy = as<T>(operands[0]) + shape_.first_row(task) * shape_.hidden + shape_.first_column(task);
    for_query_blocks(0, shape_.sequence, [&](QueryBlock block) {
      const std::int64_t seen = seen_by(seen_rows, block);
      load_head(shape_, dy + block.begin * shape_.hidden, shape_.hidden, block.rows, 1.0f, arrays.dy);
      load_probabilities(seen_rows, as<T>(operands[1]), task, block, arrays.probabilities);
      block_product(block.rows, whole_vectors(seen), shape_.head_dim, {arrays.dy, dim, 1}, arrays.transposed, stride,
                    arrays.dprobabilities, stride, false);
      store_probabilities(seen_rows, arrays.dprobabilities, task, block, as<T>(operands[3]));
      block_product(seen, dim, block.rows, {arrays.probabilities, 1, stride}, arrays.dy, dim, arrays.dv, dim, true);
    });
  }

  // Writes dv, and zeros for queries and keys, of the heads from `task` on that share values. `dqkv`: of their
  // sequence.
  void store(T* dqkv, std::int64_t task, const Arrays& arrays) const {
    const T* const none = nullptr;
    for (std::int64_t sharer = task; sharer < task + shape_.sharers(); ++sharer) {
      store_head_sum(shape_, nullptr, shape_.sequence, 1.0f, none, dqkv + shape_.first_column(sharer), shape_.width);
    }
    store_head_sum(shape_, nullptr, shape_.sequence, 1.0f, none, dqkv + shape_.key_column(task), shape_.width);
    store_head(shape_, arrays.dv, shape_.sequence, 1.0f, dqkv + shape_.value_column(task), shape_.width);
  }
};

}  // namespace

const Factory make_attention_mix_backward = make_for_input<AttentionMixBackward, 2>;

}  // namespace l2l::device::kernels
