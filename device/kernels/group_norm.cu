#include "device/kernels/group_norm.cuh"

#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// A block per sample and group, which reads it twice: the deviation is about the mean.
template <typename T, int Count>
__global__ void __launch_bounds__(kGroupNormThreads)
    group_statistics(NormGroups groups, const T* x, float epsilon, float* mean, float* inverse) {
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
      : context_(context), body_(op.attributes), epsilon_(op.attributes.epsilon) {
    require_groups<T>(body_.groups.elements(), body_.groups.group_channels);
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    GroupNormBody<T> body = body_;
    point_to(operands, body.x, body.gain, body.bias, body.y, body.mean, body.inverse);
    const NormGroups& groups = body.groups;
    const auto find_statistics =
        rows_are_packed<T>(groups.group_channels) ? group_statistics<T, kPack<T>> : group_statistics<T, 1>;
    launch("group_norm", find_statistics, {static_cast<unsigned int>(groups.statistics()), kGroupNormThreads}, stream,
           groups, body.x, epsilon_, body.mean, body.inverse);
    launch_elementwise_rows<T>("group_norm", context_, groups.elements(), groups.channels, body, stream);
  }

 private:
  Context context_;
  GroupNormBody<T> body_;  // without addresses
  float epsilon_;
};

// x, or the squared deviations from the mean of its column; zeros where running statistics stand for them.
template <typename T, bool kDeviations>
struct ColumnMoment : Unprepared {
  const T* x = nullptr;
  std::int64_t rows = 0, columns = 0;
  const float* sums = nullptr;  // of the columns of x
  const LaunchParameters* parameters = nullptr;

  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    if (!parameters->training) return {};
    Floats<Count> values = load_floats<Count>(x + row * columns + column);
    if constexpr (kDeviations) {
      const Floats<Count> totals = load_floats<Count>(sums + column);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float deviation = values[i] - totals[i] / static_cast<float>(rows);
        values[i] = deviation * deviation;
      }
    }
    return values;
  }
};

template <typename T>
__global__ void batch_moments(ColumnMoment<T, true> moment, const float* squares, const T* running_mean,
                              const T* running_variance, float epsilon, float* mean, float* inverse) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (i >= moment.columns) return;
  const bool training = moment.parameters->training;
  const auto rows = static_cast<float>(moment.rows);
  mean[i] = training ? moment.sums[i] / rows : widen(running_mean[i]);
  inverse[i] = 1.0f / sqrtf((training ? squares[i] / rows : widen(running_variance[i])) + epsilon);
}

// group_norm with a group for each channel of all rows; the running statistics stand for its own where the launch does
// not train.
template <typename T>
class BatchNorm final : public Kernel {
 public:
  BatchNorm(const Context& context, const OpView& op)
      : context_(context),
        body_(op.attributes),
        epsilon_(op.attributes.epsilon),
        sums_(body_.groups.sample_rows, body_.groups.channels) {
    require_groups<T>(body_.groups.elements(), body_.groups.group_channels);
  }

  Bytes workspace() const override { return cut(nullptr).bytes; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    constexpr const char* kName = "batch_norm";
    const ChannelTotals parts = cut(workspace);  // of values, of squared deviations
    GroupNormBody<T> body = body_;
    const T *running_mean, *running_variance;
    point_to(operands, body.x, body.gain, body.bias, running_mean, running_variance, body.y, body.mean, body.inverse);
    const NormGroups& groups = body.groups;
    check(cudaMemsetAsync(parts.totals, 0, 2 * groups.channels * sizeof(float), stream), "cudaMemsetAsync");
    float* const squares = parts.totals + groups.channels;
    const ColumnMoment<T, false> values{{}, body.x, groups.sample_rows, groups.channels, nullptr, parameters};
    const ColumnMoment<T, true> deviations{{}, body.x, groups.sample_rows, groups.channels, parts.totals, parameters};
    sums_.enqueue(kName, values, parts.sums, parts.totals, stream);
    sums_.enqueue(kName, deviations, parts.sums, squares, stream);
    launch(kName, batch_moments<T>, {ceil_div(groups.channels, kElementwiseThreads), kElementwiseThreads}, stream,
           deviations, squares, running_mean, running_variance, epsilon_, body.mean, body.inverse);
    launch_elementwise_rows<T>(kName, context_, groups.elements(), groups.channels, body, stream);
  }

 private:
  ChannelTotals cut(std::byte* workspace) const { return {body_.groups, sums_, workspace}; }

  Context context_;
  GroupNormBody<T> body_;  // without addresses
  float epsilon_;
  ColumnSums<T> sums_;
};

}  // namespace

const Factory make_group_norm = make_for_input<GroupNorm>;
const Factory make_batch_norm = make_for_input<BatchNorm>;

}  // namespace l2l::device::cuda
