#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

// x and y may be the same memory.
template <typename T>
class AddPositions final : public Kernel {
 public:
  AddPositions(const OpView& op)
      : rows_(op.input(0).shape[0]),
        hidden_(op.input(0).shape[1]),
        sequence_(op.attributes.sequence),
        positions_(op.input(1).shape[0]),
        places_(op.inputs.size() > 2) {
    op.require_dtype(op.output(0).dtype, {0, 1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* places = places_ ? as<std::int32_t>(operands[2]) : nullptr;
    for_rows(rows_, hidden_, workers, [&](std::int64_t row) {
      const T* x = as<T>(operands[0]) + row * hidden_;
      const T* position = as<T>(operands[1]) + place_of("add_positions", places, row, sequence_, positions_) * hidden_;
      T* y = as<T>(operands.back()) + row * hidden_;
#pragma omp simd
      for (std::int64_t i = 0; i < hidden_; ++i) y[i] = narrow<T>(widen(x[i]) + widen(position[i]));
    });
  }

 private:
  std::int64_t rows_, hidden_, sequence_, positions_;
  bool places_;
};

}  // namespace

const Factory make_add_positions = make_for_output<AddPositions>;

}  // namespace l2l::device::kernels
