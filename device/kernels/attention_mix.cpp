#include "device/kernels/block_product.h"
#include "device/kernels/core_attention.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// fp32 copies and sums of one slot.
struct Buffers {
  float* values;         // [sequence][padded_dim]
  float* probabilities;  // [kQueryBlock][padded_sequence]
  float* sums;           // [kQueryBlock][padded_dim]
  Bytes bytes;

  Buffers(const AttentionShape& shape, std::byte* base) {
    WorkspaceCutter cutter(base);
    values = cutter.take<float>(shape.sequence * shape.padded_dim);
    probabilities = cutter.take<float>(kQueryBlock * shape.padded_sequence);
    sums = cutter.take<float>(kQueryBlock * shape.padded_dim);
    bytes = cutter.used();
  }
};

template <typename T>
class AttentionMix final : public Kernel {
 public:
  AttentionMix(const OpView& op) : shape_(op.input(1), op.attributes), parts_(query_parts(shape_)) {
    op.require_dtype(op.input(1).dtype, {0, 2});
  }

  Bytes workspace(int threads) const override { return Buffers(shape_, nullptr).bytes * static_cast<Bytes>(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Bytes slot_bytes = Buffers(shape_, nullptr).bytes;
    workers.parallel_for(shape_.tasks() * parts_.count(), [&](std::int64_t index, int slot) {
      const Buffers buffers(shape_, workspace + slot_bytes * static_cast<Bytes>(slot));
      const std::int64_t task = index / parts_.count(), part = index % parts_.count(), row = shape_.first_row(task);
      const SeenRows seen(shape_, nullptr, task);  // what lies in other documents is 0
      load_head(shape_, as<T>(operands[1]) + row * shape_.width + shape_.value_column(task), shape_.width,
                seen.end(parts_.end(part) - 1), 1.0f, buffers.values);
      T* y = as<T>(operands[2]) + row * shape_.hidden + shape_.first_column(task);
      for_query_blocks(parts_.begin(part), parts_.end(part), [&](QueryBlock block) {
        load_probabilities(seen, as<T>(operands[0]), task, block, buffers.probabilities);
        block_product(block.rows, shape_.padded_dim, seen_by(seen, block),
                      {buffers.probabilities, shape_.padded_sequence, 1}, buffers.values, shape_.padded_dim,
                      buffers.sums, shape_.padded_dim, false);
        store_head(shape_, buffers.sums, block.rows, 1.0f, y + block.begin * shape_.hidden, shape_.hidden);
      });
    });
  }

 private:
  AttentionShape shape_;
  Partition parts_;
};

}  // namespace

const Factory make_attention_mix = make_for_input<AttentionMix, 1>;

}  // namespace l2l::device::kernels
