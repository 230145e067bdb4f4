#include <cstring>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

class Reshape final : public Kernel {
 public:
  Reshape(const OpView& op)
      : elements_(op.output(0).shape.elements()), size_(static_cast<std::int64_t>(size_of(op.output(0).dtype))) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_blocks(elements_, workers, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(operands[1] + begin * size_, operands[0] + begin * size_,
                  static_cast<std::size_t>((end - begin) * size_));
    });
  }

 private:
  std::int64_t elements_, size_;  // bytes of one
};

}  // namespace

const Factory make_reshape = make_one<Reshape>;

}  // namespace l2l::device::kernels
