#include "device/kernels/block_product.h"
#include "device/kernels/core_attention.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct Arrays : SlotArrays {
  using SlotArrays::SlotArrays;
  float* values = matrix(shape.sequence, shape.padded_dim);
  float* probabilities = matrix(kQueryBlock, shape.padded_sequence);
  float* sums = matrix(kQueryBlock, shape.padded_dim);
};

template <typename T>
class AttentionMix final : public AttentionKernel<Arrays> {
 public:
  AttentionMix(const OpView& op) : AttentionKernel(op.input(1), op.attributes), parts_(query_parts(shape_)) {
    op.require_dtype(op.input(1).dtype, {0, 2});
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    in_slots(shape_.tasks() * parts_.count(), workspace, workers, [&](std::int64_t index, const Arrays& arrays) {
      const std::int64_t task = index / parts_.count(), part = index % parts_.count(), row = shape_.first_row(task);
      const SeenRows seen(shape_, nullptr, task);  // what lies in other documents is 0
      load_head(shape_, as<T>(operands[1]) + row * shape_.width + shape_.value_column(task), shape_.width,
                seen.end(parts_.end(part) - 1), 1.0f, arrays.values);
      T* y = as<T>(operands[2]) + row * shape_.hidden + shape_.first_column(task);
      for_query_blocks(parts_.begin(part), parts_.end(part), [&](QueryBlock block) {
        load_probabilities(seen, as<T>(operands[0]), task, block, arrays.probabilities);
        block_product(block.rows, shape_.padded_dim, seen_by(seen, block),
                      {arrays.probabilities, shape_.padded_sequence, 1}, arrays.values, shape_.padded_dim, arrays.sums,
                      shape_.padded_dim, false);
        store_head(shape_, arrays.sums, block.rows, 1.0f, y + block.begin * shape_.hidden, shape_.hidden);
      });
    });
  }

 private:
  Partition parts_;
};

}  // namespace

const Factory make_attention_mix = make_for_input<AttentionMix, 1>;

}  // namespace l2l::device::kernels
