#include <cstring>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/tensor_exchange.h"

namespace l2l::device::kernels {
namespace {

class AllGatherRows final : public Kernel {
 public:
  AllGatherRows(const OpView& op) : exchange_(op), bytes_(op.input(0).bytes()) {
    op.require_dtype(op.input(0).dtype, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    std::byte* const y = operands[1];
    exchange_.run(operands[0], [&](std::span<const std::byte* const> given) {
      for (std::size_t device = 0; device < given.size(); ++device) {
        const std::byte* const from = given[device];
        std::byte* const to = y + device * bytes_;
        for_blocks(static_cast<std::int64_t>(bytes_), workers, [=](std::int64_t begin, std::int64_t end) {
          std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        });
      }
    });
  }

 private:
  TensorExchange exchange_;
  Bytes bytes_;  // of each device's rows
};

}  // namespace

const Factory make_all_gather_rows = make_one<AllGatherRows>;

}  // namespace l2l::device::kernels
