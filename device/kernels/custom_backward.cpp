#include "device/kernels/common/operands.h"
#include "device/kernels/custom_op.h"
#include "device/kernels/factories.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// Gradients of parameters are summed in blocks of rows, then over the blocks in ascending order.
template <typename T>
class CustomBackward final : public Kernel {
 public:
  // Operands: dy, x, y, (parameters), dx, (dparameters).
  explicit CustomBackward(const OpView& op)
      : custom_(op, 1, 2, 3),
        trained_(op.outputs.size() > 1),
        dx_(op.inputs.size()),
        blocks_(sum_blocks(custom_.rows)),
        piece_(custom_.blocks(blocks_.size).size) {}

  Bytes workspace(int threads) const override { return cut(nullptr, threads).used; }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& launch, Workers& workers) const override {
    const Room room = cut(workspace, workers.threads());
    if (custom_.parameters > 0) widen_row(as<T>(operands[3]), room.parameters, custom_.parameters);
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int slot) {
      float* const sums = trained_ ? room.sums + block * custom_.parameters : nullptr;
      if (trained_) std::fill(sums, sums + custom_.parameters, 0.0f);
      for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); row += piece_) {
        differentiate(operands, row, std::min(piece_, blocks_.end(block) - row), room, slot, sums, launch);
      }
    });
    if (!trained_) return;
    add_partial_sums(room.sums, blocks_.count(), custom_.parameters, custom_.parameters, as<float>(operands[dx_ + 1]),
                     workers);
  }

 private:
  struct Room {
    float *parameters, *sums, *lines;
    Bytes used;
  };

  std::int64_t line() const { return piece_ * 2 * (custom_.columns + custom_.result_columns); }
  Room cut(std::byte* base, int threads) const {
    WorkspaceCutter cutter(base);
    float* const parameters = cutter.take<float>(custom_.parameters);
    float* const sums = cutter.take<float>(trained_ ? blocks_.count() * custom_.parameters : 0);
    float* const lines = cutter.take<float>(threads * line());
    return {parameters, sums, lines, cutter.used()};
  }

  void differentiate(Operands operands, std::int64_t row, std::int64_t rows, const Room& room, int slot, float* sums,
                     const LaunchParameters& launch) const {
    const std::int64_t columns = custom_.columns, results = custom_.result_columns;
    float* const x = room.lines + slot * line();
    float *const dx = x + piece_ * columns, *const dy = dx + piece_ * columns, *const y = dy + piece_ * results;
    const l2l::CustomBackward call{rows,
                                   columns,
                                   results,
                                   in_fp32(as<T>(operands[0]) + row * results, dy, rows * results),
                                   in_fp32(as<T>(operands[1]) + row * columns, x, rows * columns),
                                   in_fp32(as<T>(operands[2]) + row * results, y, rows * results),
                                   span_of(room.parameters, custom_.parameters),
                                   span_of(dx, rows * columns),
                                   span_of(sums, sums != nullptr ? custom_.parameters : 0),
                                   row,
                                   place_of(launch),
                                   custom_.rng_op};
    call_own(*custom_.op, launch, [&] { custom_.op->backward(call); });
    narrow_row(dx, as<T>(operands[dx_]) + row * columns, rows * columns);
  }

  CustomRows custom_;
  bool trained_;
  std::size_t dx_;  // operand
  Partition blocks_;
  std::int64_t piece_;  // rows of one call
};

}  // namespace

const Factory make_custom_backward = make_for_input<CustomBackward>;

}  // namespace l2l::device::kernels
