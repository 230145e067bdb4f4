// Layer norm and RMS norm of rows, or of the sum of rows and a residual (x after dropout, each value rounded to T).
#include <cmath>

#include "device/kernels/common/random.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct NormForward {
  const T *x, *residual, *gain, *bias;
  T *y, *sum;  // sum: may be null
  float *mean, *inverse;
  std::int64_t rows, hidden;
  float epsilon;
  float offset;  // RMS norm: the gain is offset + weight
  const LaunchParameters* parameters;
  std::uint32_t rng_op;
  float probability;           // of dropout, 0: none
  std::int64_t first_element;  // of those of all devices, for dropout

  // Elements of the row that is normed, as if they had been rounded and stored.
  template <bool kAdd, int Count>
  __device__ Floats<Count> source(const DropoutMask& mask, std::int64_t first) const {
    Floats<Count> values = load_floats<Count>(x + first);
    if constexpr (kAdd) {
      values = dropped(mask, first_element + first, values);
      const Floats<Count> other = load_floats<Count>(residual + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] = rounded<T>(rounded<T>(values[i]) + other[i]);
    }
    return values;
  }

  template <bool kAdd>
  __device__ DropoutMask dropout_mask() const {
    return kAdd && probability > 0 ? DropoutMask(*parameters, rng_op, probability) : DropoutMask();
  }

  template <bool kRms, int Count>
  __device__ void finish(std::int64_t row, std::int64_t column, const Floats<Count>& values, float center,
                         float scale) const {
    Floats<Count> result;
    const Floats<Count> gains = load_floats<Count>(gain + column);
    if constexpr (kRms) {
#pragma unroll
      for (int i = 0; i < Count; ++i) result[i] = values[i] * scale * (offset + gains[i]);
    } else {
      const Floats<Count> biases = load_floats<Count>(bias + column);
#pragma unroll
      for (int i = 0; i < Count; ++i) result[i] = (values[i] - center) * scale * gains[i] + biases[i];
    }
    store_floats(y + row * hidden + column, result);
  }

  template <bool kRms>
  __device__ void store_statistics(std::int64_t row, float center, float scale) const {
    if constexpr (!kRms) mean[row] = center;
    inverse[row] = scale;
  }
};

// Moves 2 elements of T per element of x (with a residual 3, and 1 for the sum); gain and bias stay in the L1 cache.
// Mean and deviation in two passes over registers.
template <typename T, typename Shape, bool kRms, bool kAdd>
__global__ void __launch_bounds__(Shape::kThreads > 128 ? Shape::kThreads : 128) norm_forward(NormForward<T> norm) {
  constexpr int kWidth = kPack<T>, kBlock = Shape::kThreads > 128 ? Shape::kThreads : 128;
  constexpr int kGroups = kBlock / Shape::kThreads;
  static_assert(Shape::kThreads == 32 || kGroups == 1, "a group of several warps meets at barriers");
  __shared__ Floats<1> shared[2][kBlock / 32];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kGroups + threadIdx.x / Shape::kThreads;
  if (row >= norm.rows) return;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int packs = static_cast<int>(norm.hidden / kWidth);
  const DropoutMask mask = norm.template dropout_mask<kAdd>();
  Floats<kWidth> values[Shape::kPacks];
  float total = 0;
#pragma unroll
  for (int p = 0; p < Shape::kPacks; ++p) {
    const int pack = thread + p * Shape::kThreads;
    values[p] = {};
    if (pack >= packs) continue;
    const std::int64_t first = row * norm.hidden + pack * kWidth;
    values[p] = norm.template source<kAdd, kWidth>(mask, first);
    if (kAdd && norm.sum != nullptr) store_floats(norm.sum + first, values[p]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) total += kRms ? values[p][i] * values[p][i] : values[p][i];
  }
  const float size = static_cast<float>(norm.hidden);
  float center = 0, square = group_sum<Shape::kThreads>(total, shared[0]) / size;
  if constexpr (!kRms) {
    center = square;
    total = 0;
#pragma unroll
    for (int p = 0; p < Shape::kPacks; ++p) {
      if (thread + p * Shape::kThreads >= packs) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) total += (values[p][i] - center) * (values[p][i] - center);
    }
    square = group_sum<Shape::kThreads>(total, shared[1]) / size;
  }
  const float scale = 1.0f / sqrtf(square + norm.epsilon);
#pragma unroll
  for (int p = 0; p < Shape::kPacks; ++p) {
    const int pack = thread + p * Shape::kThreads;
    if (pack < packs) norm.template finish<kRms>(row, pack * kWidth, values[p], center, scale);
  }
  if (thread == 0) norm.template store_statistics<kRms>(row, center, scale);
}

constexpr int kAnyNormThreads = 256;

// Rows of any width and alignment: a block per row, which it reads three times.
template <typename T, bool kRms, bool kAdd>
__global__ void __launch_bounds__(kAnyNormThreads) norm_forward_any(NormForward<T> norm) {
  __shared__ Floats<1> shared[2][kAnyNormThreads / 32];
  const std::int64_t row = blockIdx.x;
  const DropoutMask mask = norm.template dropout_mask<kAdd>();
  const auto value = [&](std::int64_t column) {
    return norm.template source<kAdd, 1>(mask, row * norm.hidden + column);
  };
  float total = 0;
  for (std::int64_t column = threadIdx.x; column < norm.hidden; column += kAnyNormThreads) {
    const Floats<1> x = value(column);
    total += kRms ? x[0] * x[0] : x[0];
  }
  const float size = static_cast<float>(norm.hidden);
  float center = 0, square = group_sum<kAnyNormThreads>(total, shared[0]) / size;
  if constexpr (!kRms) {
    center = square;
    total = 0;
    for (std::int64_t column = threadIdx.x; column < norm.hidden; column += kAnyNormThreads) {
      const float deviation = value(column)[0] - center;
      total += deviation * deviation;
    }
    square = group_sum<kAnyNormThreads>(total, shared[1]) / size;
  }
  const float scale = 1.0f / sqrtf(square + norm.epsilon);
  for (std::int64_t column = threadIdx.x; column < norm.hidden; column += kAnyNormThreads) {
    const Floats<1> x = value(column);
    if (kAdd && norm.sum != nullptr) store_floats(norm.sum + row * norm.hidden + column, x);
    norm.template finish<kRms>(row, column, x, center, scale);
  }
  if (threadIdx.x == 0) norm.template store_statistics<kRms>(row, center, scale);
}

// x, (residual), gain, (bias) -> y, (mean), inverse, (sum).
template <typename T, bool kRms, bool kAdd>
class NormForwardKernel final : public Kernel {
 public:
  NormForwardKernel(const Context&, const OpView& op)
      : attributes_(op.attributes), rows_(op.input(0).shape[0]), hidden_(op.input(0).shape[1]) {
    if (!kAdd || attributes_.probability == 0) return;
    kernels::require_random_elements(attributes_.shard.count * rows_ * hidden_, name());
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters* parameters, cudaStream_t stream) const override {
    const NormForward<T> norm = problem(operands, parameters);
    const auto run = [&](auto shape) {
      using Shape = decltype(shape);
      constexpr int kBlock = Shape::kThreads > 128 ? Shape::kThreads : 128;
      launch(name(), norm_forward<T, Shape, kRms, kAdd>, {ceil_div(rows_, kBlock / Shape::kThreads), kBlock}, stream,
             norm);
    };
    // Rows of 16-bit types up to 1024, 4096 and 32768 columns, f32 up to half of that.
    if (rows_are_packed<T>(hidden_) &&
        with_row_shape<RowShape<32, 4>, RowShape<128, 4>, RowShape<512, 8>>(hidden_ / kPack<T>, run)) {
      return;
    }
    launch(name(), norm_forward_any<T, kRms, kAdd>, {static_cast<unsigned int>(rows_), kAnyNormThreads}, stream, norm);
  }

 private:
  static constexpr const char* name() {
    if (kAdd) return kRms ? "add_rms_norm" : "add_layer_norm";
    return kRms ? "rms_norm" : "layer_norm";
  }

  NormForward<T> problem(Operands operands, const LaunchParameters* parameters) const {
    NormForward<T> norm{};
    std::size_t next = 0;
    norm.x = as<T>(operands[next++]);
    if (kAdd) norm.residual = as<T>(operands[next++]);
    norm.gain = as<T>(operands[next++]);
    if (!kRms) norm.bias = as<T>(operands[next++]);
    norm.y = as<T>(operands[next++]);
    if (!kRms) norm.mean = as<float>(operands[next++]);
    norm.inverse = as<float>(operands[next++]);
    if (next < operands.size()) norm.sum = as<T>(operands[next]);
    norm.rows = rows_;
    norm.hidden = hidden_;
    norm.epsilon = attributes_.epsilon;
    norm.offset = attributes_.unit_offset ? 1.0f : 0.0f;
    norm.parameters = parameters;
    norm.rng_op = attributes_.rng_op;
    norm.probability = kAdd ? attributes_.probability : 0;
    norm.first_element = attributes_.shard.index * rows_ * hidden_;
    return norm;
  }

  compiler::Attributes attributes_;
  std::int64_t rows_, hidden_;
};

template <typename T>
using LayerNorm = NormForwardKernel<T, false, false>;
template <typename T>
using AddLayerNorm = NormForwardKernel<T, false, true>;
template <typename T>
using RmsNorm = NormForwardKernel<T, true, false>;
template <typename T>
using AddRmsNorm = NormForwardKernel<T, true, true>;

}  // namespace

const Factory make_layer_norm = make_for_input<LayerNorm>;
const Factory make_add_layer_norm = make_for_input<AddLayerNorm>;
const Factory make_rms_norm = make_for_input<RmsNorm>;
const Factory make_add_rms_norm = make_for_input<AddRmsNorm>;

}  // namespace l2l::device::cuda
