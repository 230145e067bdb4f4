#include "device/kernels/group_norm.cuh"

#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Running statistics of each group, which stand for its own where the launch does not train; null for group_norm.
template <typename T>
struct RunningStatistics {
  const T *mean = nullptr, *variance = nullptr;
  const LaunchParameters* parameters = nullptr;
};

// A block per sample and group, which reads it twice: the deviation is about the mean.
template <typename T, int Count>
__global__ void __launch_bounds__(kGroupNormThreads)
    group_statistics(NormGroups groups, const T* x, float epsilon, RunningStatistics<T> running, float* mean,
                     float* inverse) {
  if (running.mean != nullptr && !running.parameters->training) {
    if (threadIdx.x > 0) return;
    mean[blockIdx.x] = widen(running.mean[blockIdx.x]);
    inverse[blockIdx.x] = 1.0f / sqrtf(widen(running.variance[blockIdx.x]) + epsilon);
    return;
  }
  __shared__ Floats<1> shared[2][kGroupNormThreads / 32];
  float total = 0;
  groups.template each<Count>(blockIdx.x, [&](std::int64_t index, std::int64_t) {
    const Floats<Count> values = load_floats<Count>(x + index);
#pragma unroll
    for (int i = 0; i < Count; ++i) total += values[i];
  });
  const float center = group_sum<kGroupNormThreads>(total, shared[0]) / groups.group_size();
  total = 0;
  groups.template each<Count>(blockIdx.x, [&](std::int64_t index, std::int64_t) {
    const Floats<Count> values = load_floats<Count>(x + index);
#pragma unroll
    for (int i = 0; i < Count; ++i) total += (values[i] - center) * (values[i] - center);
  });
  const float variance = group_sum<kGroupNormThreads>(total, shared[1]) / groups.group_size();
  if (threadIdx.x > 0) return;
  mean[blockIdx.x] = center;
  inverse[blockIdx.x] = 1.0f / sqrtf(variance + epsilon);
}

// Moves 2 elements of T per element; gain, bias and statistics stay in the caches.
template <typename T>
struct GroupNormBody : Unprepared {
  NormGroups groups;
  const T *x = nullptr, *gain = nullptr, *bias = nullptr;
  T* y = nullptr;
  float *mean = nullptr, *inverse = nullptr;

  explicit GroupNormBody(const compiler::Attributes& attributes) : groups(attributes) {}

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, groups.channels);
    const Elements<Count, std::int64_t> statistic = groups.template statistics_at<Count>(place.row, place.column);
    Floats<Count> values = load_floats<Count>(x + first);
    const Floats<Count> gains = load_floats<Count>(gain + place.column);
    const Floats<Count> biases = load_floats<Count>(bias + place.column);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      values[i] = (values[i] - mean[statistic[i]]) * inverse[statistic[i]] * gains[i] + biases[i];
    }
    store_floats(y + first, values);
  }
};

template <typename T>
class GroupNorm final : public Kernel {
 public:
  GroupNorm(const Context& context, const OpView& op)
      : context_(context),
        body_(op.attributes),
        epsilon_(op.attributes.epsilon),
        running_(op.kind == compiler::OpKind::batch_norm) {
    require_groups<T>(body_.groups.elements(), body_.groups.group_channels);
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters* parameters, cudaStream_t stream) const override {
    GroupNormBody<T> body = body_;
    RunningStatistics<T> running;
    if (running_) {
      running.parameters = parameters;
      point_to(operands, body.x, body.gain, body.bias, running.mean, running.variance, body.y, body.mean, body.inverse);
    } else {
      point_to(operands, body.x, body.gain, body.bias, body.y, body.mean, body.inverse);
    }
    const NormGroups& groups = body.groups;
    const auto find_statistics =
        rows_are_packed<T>(groups.group_channels) ? group_statistics<T, kPack<T>> : group_statistics<T, 1>;
    launch("group_norm", find_statistics, {static_cast<unsigned int>(groups.statistics()), kGroupNormThreads}, stream,
           groups, body.x, epsilon_, running, body.mean, body.inverse);
    launch_elementwise_rows<T>("group_norm", context_, groups.elements(), groups.channels, body, stream);
  }

 private:
  Context context_;
  GroupNormBody<T> body_;  // without addresses
  float epsilon_;
  bool running_;
};

}  // namespace

const Factory make_group_norm = make_for_input<GroupNorm>;
const Factory make_batch_norm = make_for_input<GroupNorm>;

}  // namespace l2l::device::cuda
