#include "device/kernels/common/operands.h"
#include "device/kernels/custom_op.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Custom final : public Kernel {
 public:
  explicit Custom(const OpView& op) : custom_(op, 0, op.inputs.size(), 1), blocks_(custom_.blocks(custom_.rows)) {}

  Bytes workspace(int threads) const override { return cut(nullptr, threads).used; }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& launch, Workers& workers) const override {
    const Room room = cut(workspace, workers.threads());
    if (custom_.parameters > 0) widen_row(as<T>(operands[1]), room.parameters, custom_.parameters);
    T* const y = as<T>(operands.back());
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int slot) {
      const std::int64_t first = blocks_.begin(block), rows = blocks_.end(block) - first;
      float* const x = room.lines + slot * line();
      float* const result = x + blocks_.size * custom_.columns;
      const std::int64_t made = rows * custom_.result_columns;
      const CustomForward call{rows,
                               custom_.columns,
                               custom_.result_columns,
                               in_fp32(as<T>(operands[0]) + first * custom_.columns, x, rows * custom_.columns),
                               span_of(room.parameters, custom_.parameters),
                               span_of(result, made),
                               first,
                               place_of(launch),
                               custom_.rng_op};
      call_own(*custom_.op, launch, [&] { custom_.op->forward(call); });
      narrow_row(result, y + first * custom_.result_columns, made);
    });
  }

 private:
  struct Room {
    float *parameters, *lines;
    Bytes used;
  };

  std::int64_t line() const { return blocks_.size * (custom_.columns + custom_.result_columns); }
  Room cut(std::byte* base, int threads) const {
    WorkspaceCutter cutter(base);
    float* const parameters = cutter.take<float>(custom_.parameters);
    float* const lines = cutter.take<float>(threads * line());
    return {parameters, lines, cutter.used()};
  }

  CustomRows custom_;
  Partition blocks_;
};

}  // namespace

const Factory make_custom = make_for_input<Custom>;

}  // namespace l2l::device::kernels
