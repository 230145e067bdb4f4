#include "device/kernels/common/launch.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

constexpr int kStatisticsThreads = 256;

// `variances` may be null. `correction`: rows / (rows - 1).
__global__ void add_batch_statistics(std::int64_t channels, float epsilon, float correction, const float* mean,
                                     const float* inverse, float* means, float* variances) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kStatisticsThreads + threadIdx.x;
  if (i >= channels) return;
  means[i] += mean[i];
  if (variances == nullptr) return;
  const float deviation = 1.0f / inverse[i];
  variances[i] += fmaxf(0.0f, deviation * deviation - epsilon) * correction;
}

class BatchStatistics final : public Kernel {
 public:
  BatchStatistics(const Context&, const OpView& op)
      : channels_(op.attributes.groups), epsilon_(op.attributes.epsilon), both_(op.outputs.size() > 1) {
    const auto rows = static_cast<double>(op.attributes.dims[1] * op.attributes.dims[2]);
    correction_ = static_cast<float>(rows / (rows - 1));
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    launch("batch_statistics", add_batch_statistics, {ceil_div(channels_, kStatisticsThreads), kStatisticsThreads},
           stream, channels_, epsilon_, correction_, as<float>(operands[0]), as<float>(operands[1]),
           as<float>(operands[2]), both_ ? as<float>(operands[3]) : nullptr);
  }

 private:
  std::int64_t channels_;
  float epsilon_, correction_;
  bool both_;
};

}  // namespace

const Factory make_batch_statistics = make_one<BatchStatistics>;

}  // namespace l2l::device::cuda
