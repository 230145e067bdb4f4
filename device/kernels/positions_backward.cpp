#include "device/kernels/factories.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// A row of sums is a whole sequence, as long as the table of positions.
template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const OpView& op)
      : sequences_(op.input(0).shape[0] / op.attributes.sequence),
        table_(op.attributes.sequence * op.input(0).shape[1]) {
    op.require_dtype(DType::f32, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    add_column_sums(as<T>(operands[0]), sequences_, table_, as<float>(operands[1]), workers);
  }

 private:
  std::int64_t sequences_, table_;
};

}  // namespace

const Factory make_positions_backward = make_for_input<PositionsBackward>;

}  // namespace l2l::device::kernels
