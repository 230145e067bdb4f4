#include "device/kernels/factories.h"
#include "device/kernels/kept_sums.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class BroadcastBackward final : public Kernel {
 public:
  BroadcastBackward(const OpView& op) : sums_(op.attributes), factor_(static_cast<double>(op.attributes.factor)) {
    op.require_dtype(DType::f32, {1});
  }

  Bytes workspace(int) const override { return sums_.workspace(); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    float* const dx = as<float>(operands[1]);
    sums_.run(as<T>(operands[0]), workspace, workers,
              [dx, factor = factor_](std::int64_t first, const double* sums, std::int64_t count) {
                for (std::int64_t i = 0; i < count; ++i) dx[first + i] += static_cast<float>(factor * sums[i]);
              });
  }

 private:
  KeptSums<T> sums_;
  double factor_;
};

}  // namespace

const Factory make_broadcast_backward = make_for_input<BroadcastBackward>;

}  // namespace l2l::device::kernels
