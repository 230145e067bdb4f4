#include <algorithm>

#include "device/kernels/factories.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {
namespace {

class BatchStatistics final : public Kernel {
 public:
  BatchStatistics(const OpView& op)
      : channels_(op.attributes.groups),
        rows_(static_cast<double>(op.attributes.dims[1] * op.attributes.dims[2])),
        epsilon_(static_cast<double>(op.attributes.epsilon)),
        outputs_(op.outputs.size()) {}

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers&) const override {
    const float *const mean = as<float>(operands[0]), *const inverse = as<float>(operands[1]);
    for (std::int64_t i = 0; i < channels_; ++i) as<float>(operands[2])[i] += mean[i];
    if (outputs_ < 2) return;
    for (std::int64_t i = 0; i < channels_; ++i) {
      const auto deviation = 1 / static_cast<double>(inverse[i]);
      const double variance = std::max(0.0, deviation * deviation - epsilon_);
      as<float>(operands[3])[i] += static_cast<float>(variance * (rows_ / (rows_ - 1)));
    }
  }

 private:
  std::int64_t channels_;
  double rows_, epsilon_;
  std::size_t outputs_;
};

}  // namespace

const Factory make_batch_statistics = make_one<BatchStatistics>;

}  // namespace l2l::device::kernels
