#include "device/kernels/block_product.h"
#include "device/kernels/core_attention.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// fp32 copies and sums of one slot.
struct Buffers {
  float* values;          // [sequence][padded_dim]
  float* transposed;      // [padded_dim][padded_sequence]: values
  float* dy;              // [kQueryBlock][padded_dim]
  float* probabilities;   // [kQueryBlock][padded_sequence]
  float* dprobabilities;  // [kQueryBlock][padded_sequence]
  float* dv;              // [sequence][padded_dim]
  Bytes bytes;

  Buffers(const AttentionShape& shape, std::byte* base) {
    WorkspaceCutter cutter(base);
    values = cutter.take<float>(shape.sequence * shape.padded_dim);
    transposed = cutter.take<float>(shape.padded_dim * shape.padded_sequence);
    dy = cutter.take<float>(kQueryBlock * shape.padded_dim);
    probabilities = cutter.take<float>(kQueryBlock * shape.padded_sequence);
    dprobabilities = cutter.take<float>(kQueryBlock * shape.padded_sequence);
    dv = cutter.take<float>(shape.sequence * shape.padded_dim);
    bytes = cutter.used();
  }
};

// dprobabilities = dy v^T, dv = probabilities^T dy. The queries that share a head of values are taken in ascending
// order, on one thread.
template <typename T>
class AttentionMixBackward final : public Kernel {
 public:
  AttentionMixBackward(const OpView& op) : shape_(op.input(2), op.attributes) {
    op.require_dtype(op.input(2).dtype, {0, 1, 3, 4});
  }

  Bytes workspace(int threads) const override { return Buffers(shape_, nullptr).bytes * static_cast<Bytes>(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Bytes slot_bytes = Buffers(shape_, nullptr).bytes;
    const std::int64_t sharers = shape_.sharers();
    workers.parallel_for(shape_.tasks() / sharers, [&](std::int64_t group, int slot) {
      const Buffers buffers(shape_, workspace + slot_bytes * static_cast<Bytes>(slot));
      const std::int64_t first = group * sharers;
      load_values(as<T>(operands[2]), first, buffers);
      for (std::int64_t task = first; task < first + sharers; ++task) take(operands, task, buffers);
      store(as<T>(operands[4]) + shape_.first_row(first) * shape_.width, first, buffers);
    });
  }

 private:
  // Also clears the sums of their gradients.
  void load_values(const T* qkv, std::int64_t task, const Buffers& buffers) const {
    load_head(shape_, qkv + shape_.first_row(task) * shape_.width + shape_.value_column(task), shape_.width,
              shape_.sequence, 1.0f, buffers.values);
    transpose_head(shape_, buffers.values, shape_.sequence, buffers.transposed);
    std::fill(buffers.dv, buffers.dv + shape_.sequence * shape_.padded_dim, 0.0f);
  }

  void take(Operands operands, std::int64_t task, const Buffers& buffers) const {
    const std::int64_t dim = shape_.padded_dim, stride = shape_.padded_sequence;
    const SeenRows seen_rows(shape_, nullptr, task);
    const T* dy = as<T>(operands[0]) + shape_.first_row(task) * shape_.hidden + shape_.first_column(task);
    for_query_blocks(0, shape_.sequence, [&](QueryBlock block) {
      const std::int64_t seen = seen_by(seen_rows, block);
      load_head(shape_, dy + block.begin * shape_.hidden, shape_.hidden, block.rows, 1.0f, buffers.dy);
      load_probabilities(seen_rows, as<T>(operands[1]), task, block, buffers.probabilities);
      block_product(block.rows, whole_vectors(seen), shape_.head_dim, {buffers.dy, dim, 1}, buffers.transposed, stride,
                    buffers.dprobabilities, stride, false);
      store_probabilities(seen_rows, buffers.dprobabilities, task, block, as<T>(operands[3]));
      block_product(seen, dim, block.rows, {buffers.probabilities, 1, stride}, buffers.dy, dim, buffers.dv, dim, true);
    });
  }

  // Writes dv, and zeros for queries and keys, of the heads from `task` on that share values. `dqkv`: of their
  // sequence.
  void store(T* dqkv, std::int64_t task, const Buffers& buffers) const {
    const T* const none = nullptr;
    for (std::int64_t sharer = task; sharer < task + shape_.sharers(); ++sharer) {
      store_head_sum(shape_, nullptr, shape_.sequence, 1.0f, none, dqkv + shape_.first_column(sharer), shape_.width);
    }
    store_head_sum(shape_, nullptr, shape_.sequence, 1.0f, none, dqkv + shape_.key_column(task), shape_.width);
    store_head(shape_, buffers.dv, shape_.sequence, 1.0f, dqkv + shape_.value_column(task), shape_.width);
  }

  AttentionShape shape_;
};

}  // namespace

const Factory make_attention_mix_backward = make_for_input<AttentionMixBackward, 2>;

}  // namespace l2l::device::kernels
