#include "device/kernels/factories.h"
#include "device/kernels/row_sums.h"
#include "device/kernels/tokens.h"

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

// Each row has a row of positions, or lies anywhere in a sequence.
template <typename T>
class PlacesBackward final : public Kernel {
 public:
  PlacesBackward(const OpView& op)
      : rows_(op.input(0).shape[0]),
        hidden_(op.input(0).shape[1]),
        positions_(op.output(0).shape[0]),
        sequence_(op.attributes.sequence),
        first_row_(op.attributes.shard.index * rows_),
        places_(op.inputs.size() > 1) {
    if (places_) op.require_dtype(DType::i32, {1});
    op.require_dtype(DType::f32, {op.inputs.size()});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int32_t* const places = places_ ? as<std::int32_t>(operands[1]) : nullptr;
    const auto place = [&](std::int64_t row) {
      return place_of("positions_backward", places, first_row_ + row, sequence_, positions_);
    };
    add_rows(as<T>(operands[0]), rows_, hidden_, 1, workers, RowSums{as<float>(operands.back()), place});
  }

 private:
  std::int64_t rows_, hidden_, positions_, sequence_, first_row_;
  bool places_;
};

}  // namespace

const Factory make_positions_backward = [](const OpView& op) -> std::unique_ptr<Kernel> {
  return op.inputs.size() > 1 || op.attributes.shard.count > 1 ? make_for_input<PlacesBackward>(op)
                                                               : make_for_input<PositionsBackward>(op);
};

}  // namespace l2l::device::kernels
