#include "device/kernels/cuda_factories.h"
#include "device/kernels/group_norm.cuh"

namespace l2l::device::cuda {
namespace {

// With n = (x - mean) * inverse and g = dy * gain: dx = (g - mean(g) - n mean(g n)) * inverse, the means over a group;
// dgain += sum of dy n, dbias += sum of dy over rows.
template <typename T>
struct GroupNormGradient {
  NormGroups groups;
  const T *dy = nullptr, *x = nullptr, *gain = nullptr;
  const float *mean = nullptr, *inverse = nullptr;
  T* dx = nullptr;
  Floats<2>* means = nullptr;  // of g, of g n

  explicit GroupNormGradient(const compiler::Attributes& attributes) : groups(attributes) {}
};

template <typename T, int Count>
__global__ void __launch_bounds__(kGroupNormThreads) group_gradient_means(GroupNormGradient<T> norm) {
  __shared__ Floats<2> shared[kGroupNormThreads / 32];
  const float center = norm.mean[blockIdx.x], scale = norm.inverse[blockIdx.x];
  Floats<2> total{};
  norm.groups.template each<Count>(blockIdx.x, [&](std::int64_t index, std::int64_t channel) {
    const Floats<Count> gradients = load_floats<Count>(norm.dy + index), values = load_floats<Count>(norm.x + index);
    const Floats<Count> gains = load_floats<Count>(norm.gain + channel);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float g = gradients[i] * gains[i];
      total[0] += g;
      total[1] += g * ((values[i] - center) * scale);
    }
  });
  total = group_sums<kGroupNormThreads>(total, shared);
  if (threadIdx.x > 0) return;
  norm.means[blockIdx.x] = {{total[0] / norm.groups.group_size(), total[1] / norm.groups.group_size()}};
}

// Moves 3 elements of T per element.
template <typename T>
struct GroupNormBackwardBody : Unprepared {
  GroupNormGradient<T> norm;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, norm.groups.channels);
    const auto statistic = norm.groups.template statistics_at<Count>(place.row, place.column);
    Floats<Count> gradients = load_floats<Count>(norm.dy + first);
    const Floats<Count> values = load_floats<Count>(norm.x + first);
    const Floats<Count> gains = load_floats<Count>(norm.gain + place.column);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float scale = norm.inverse[statistic[i]];
      const Floats<2> means = norm.means[statistic[i]];
      const float n = (values[i] - norm.mean[statistic[i]]) * scale;
      gradients[i] = (gradients[i] * gains[i] - means[0] - n * means[1]) * scale;
    }
    store_floats(norm.dx + first, gradients);
  }
};

// dy n, or dy, for sums over rows.
template <typename T, bool kGain>
struct GroupNormParameterGradient : Unprepared {
  GroupNormGradient<T> norm;

  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * norm.groups.channels + column;
    Floats<Count> gradients = load_floats<Count>(norm.dy + first);
    if constexpr (kGain) {
      const auto statistic = norm.groups.template statistics_at<Count>(row, column);
      const Floats<Count> values = load_floats<Count>(norm.x + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        gradients[i] *= (values[i] - norm.mean[statistic[i]]) * norm.inverse[statistic[i]];
      }
    }
    return gradients;
  }
};

// dy, x, gain, mean, inverse -> dx, (dgain (+=), (dbias (+=))).
template <typename T>
class GroupNormBackward final : public Kernel {
 public:
  GroupNormBackward(const Context& context, const OpView& op)
      : context_(context),
        norm_(op.attributes),
        trained_(op.outputs.size() - 1),
        sums_(op.input(0).shape[0], op.input(0).shape[1]) {
    require_groups<T>(norm_.groups.elements(), norm_.groups.group_channels);
  }

  Bytes workspace() const override { return Parts(*this, nullptr).bytes; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    const Parts parts(*this, workspace);
    GroupNormGradient<T> norm = norm_;
    point_to(operands, norm.dy, norm.x, norm.gain, norm.mean, norm.inverse, norm.dx);
    norm.means = parts.means;
    const NormGroups& groups = norm.groups;
    const auto find_means =
        rows_are_packed<T>(groups.group_channels) ? group_gradient_means<T, kPack<T>> : group_gradient_means<T, 1>;
    launch(kName, find_means, {static_cast<unsigned int>(groups.statistics()), kGroupNormThreads}, stream, norm);
    launch_elementwise_rows<T>(kName, context_, groups.elements(), groups.channels, GroupNormBackwardBody<T>{{}, norm},
                               stream);
    if (trained_ > 0) {
      sums_.enqueue(kName, GroupNormParameterGradient<T, true>{{}, norm}, parts.sums, as<float>(operands[6]), stream);
    }
    if (trained_ > 1) {
      sums_.enqueue(kName, GroupNormParameterGradient<T, false>{{}, norm}, parts.sums, as<float>(operands[7]), stream);
    }
  }

 private:
  static constexpr const char* kName = "group_norm_backward";

  struct Parts {
    Floats<2>* means;
    std::byte* sums;
    Bytes bytes;
    Parts(const GroupNormBackward& kernel, std::byte* workspace) {
      kernels::WorkspaceCutter cutter(workspace);
      means = cutter.take<Floats<2>>(kernel.norm_.groups.statistics());
      sums = cutter.take<std::byte>(static_cast<std::int64_t>(kernel.sums_.workspace()));
      bytes = cutter.used();
    }
  };

  Context context_;
  GroupNormGradient<T> norm_;  // without addresses
  std::size_t trained_;        // parameters
  ColumnSums<T> sums_;
};

// Adds the sums of batch norm to the gradients of its parameters. `dbias` may be null.
__global__ void add_column_totals(std::int64_t channels, const float* totals, float* dgain, float* dbias) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (i >= channels) return;
  dgain[i] += totals[i];
  if (dbias != nullptr) dbias[i] += totals[channels + i];
}

// mean(g) = gain * sum(dy) / rows, mean(g n) = gain * sum(dy n) / rows. Moves 3 elements of T per element.
template <typename T>
struct BatchNormBackwardBody : Unprepared {
  GroupNormGradient<T> norm;
  const float* totals = nullptr;  // [2, channels]: sums of dy n, of dy

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const std::int64_t column = place_of<Count>(first, norm.groups.channels).column;
    Floats<Count> gradients = load_floats<Count>(norm.dy + first);
    const Floats<Count> values = load_floats<Count>(norm.x + first), gains = load_floats<Count>(norm.gain + column);
    const Floats<Count> means = load_floats<Count>(norm.mean + column);
    const Floats<Count> scales = load_floats<Count>(norm.inverse + column);
    const Floats<Count> with_n = load_floats<Count>(totals + column);
    const Floats<Count> alone = load_floats<Count>(totals + norm.groups.channels + column);
    const float rows = norm.groups.group_size();
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float n = (values[i] - means[i]) * scales[i];
      gradients[i] = (gradients[i] - (alone[i] + n * with_n[i]) / rows) * gains[i] * scales[i];
    }
    store_floats(norm.dx + first, gradients);
  }
};

// The same for statistics of single channels over all rows: its two sums over columns are the parameters' gradients.
template <typename T>
class BatchNormBackward final : public Kernel {
 public:
  BatchNormBackward(const Context& context, const OpView& op)
      : context_(context),
        norm_(op.attributes),
        trained_(op.outputs.size() - 1),
        sums_(op.input(0).shape[0], op.input(0).shape[1]) {
    require_groups<T>(norm_.groups.elements(), norm_.groups.channels);
  }

  Bytes workspace() const override { return cut(nullptr).bytes; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    constexpr const char* kName = "batch_norm_backward";
    const ChannelTotals parts = cut(workspace);  // of dy n, of dy
    const std::int64_t channels = norm_.groups.channels;
    GroupNormGradient<T> norm = norm_;
    point_to(operands, norm.dy, norm.x, norm.gain, norm.mean, norm.inverse, norm.dx);
    check(cudaMemsetAsync(parts.totals, 0, 2 * channels * sizeof(float), stream), "cudaMemsetAsync");
    sums_.enqueue(kName, GroupNormParameterGradient<T, true>{{}, norm}, parts.sums, parts.totals, stream);
    sums_.enqueue(kName, GroupNormParameterGradient<T, false>{{}, norm}, parts.sums, parts.totals + channels, stream);
    launch_elementwise_rows<T>(kName, context_, norm.groups.elements(), channels,
                               BatchNormBackwardBody<T>{{}, norm, parts.totals}, stream);
    if (trained_ == 0) return;
    launch(kName, add_column_totals, {ceil_div(channels, kElementwiseThreads), kElementwiseThreads}, stream, channels,
           parts.totals, as<float>(operands[6]), trained_ > 1 ? as<float>(operands[7]) : nullptr);
  }

 private:
  ChannelTotals cut(std::byte* workspace) const { return {norm_.groups, sums_, workspace}; }

  Context context_;
  GroupNormGradient<T> norm_;  // without addresses
  std::size_t trained_;        // parameters
  ColumnSums<T> sums_;
};

std::unique_ptr<Kernel> make_group_or_batch_norm_backward(const Context& context, const OpView& op) {
  if (NormGroups(op.attributes).by_column()) return make_for_input<BatchNormBackward>(context, op);
  return make_for_input<GroupNormBackward>(context, op);
}

}  // namespace

const Factory make_group_norm_backward = make_group_or_batch_norm_backward;

}  // namespace l2l::device::cuda
