#include "device/kernels/panel_cross_entropy.cuh"

#include <algorithm>

#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/common/convert.cuh"
#include "device/kernels/common/launch.cuh"

namespace l2l::device::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kMostWarps = kMostThreads / 32;
constexpr int kAccesses = 4;          // by one thread before it computes
constexpr int kTurn = 4 * kAccesses;  // logits of a thread at a time
constexpr float kLog2E = 1.44269504f;

template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T elements[4];
};

// e^(x - highest), 0 for a logit of -infinity.
__device__ float exponential(float x, float highest) { return exp2f((x - highest) * kLog2E); }

template <typename T>
struct LogitRow {
  const float* logits;
  const T* bias;
  std::int64_t tokens;
  float softcap = 0;

  __device__ float capped(float logit) const { return softcap > 0 ? softcap * tanhf(logit / softcap) : logit; }
  // The derivative of the cap where it gives `value`.
  __device__ float slope(float value) const {
    const float share = softcap > 0 ? value / softcap : 0.0f;
    return 1.0f - share * share;
  }
  __device__ float at(std::int64_t i) const { return capped(bias ? logits[i] + widen(bias[i]) : logits[i]); }

  // Logits i to i + 3, i a multiple of 4; -infinity for those behind the end.
  __device__ void load(std::int64_t i, float (&values)[4]) const {
    if (i + 4 > tokens) {
      for (int k = 0; k < 4; ++k) values[k] = i + k < tokens ? at(i + k) : -INFINITY;
      return;
    }
    const float4 four = *reinterpret_cast<const float4*>(logits + i);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    if (bias) {
      const Four<T> biases = *reinterpret_cast<const Four<T>*>(bias + i);
      for (int k = 0; k < 4; ++k) values[k] += widen(biases.elements[k]);
    }
    if (softcap == 0) return;
    for (int k = 0; k < 4; ++k) values[k] = capped(values[k]);
  }
};

// Where access `access` of this thread lies in the turn that begins at `turn`.
__device__ std::int64_t place(std::int64_t turn, int access) {
  return turn + (static_cast<std::int64_t>(access) * blockDim.x + threadIdx.x) * 4;
}

// The largest value of the block, for all its threads. `shared` may be used again after the next __syncthreads().
__device__ float block_max(float value, float* shared) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x / 32); ++warp) value = fmaxf(value, shared[warp]);
  return value;
}

// The sum over the block, for all its threads: in f64 from lane to lane and from warp to warp.
__device__ double block_sum(double value, double* shared) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < static_cast<int>(blockDim.x / 32); ++warp) sum += shared[warp];
  return sum;
}

// Adds the logits of a row to `state`, but for the logit of the target. Reads them once: a thread's sum is of powers of
// e relative to the highest logit that it has seen so far.
template <typename T>
__device__ void take_row(const LogitRow<T>& row, RowState& state) {
  __shared__ float shared_highest[kMostWarps];
  __shared__ double shared_sums[kMostWarps];
  float highest = -INFINITY, sum = 0;
  for (std::int64_t turn = 0; place(turn, 0) < row.tokens; turn += std::int64_t{blockDim.x} * kTurn) {
    float values[kAccesses][4];
    for (int access = 0; access < kAccesses; ++access) row.load(place(turn, access), values[access]);
    float above = highest;
    for (const auto& four : values) above = fmaxf(above, fmaxf(fmaxf(four[0], four[1]), fmaxf(four[2], four[3])));
    sum *= exponential(highest, above);
    highest = above;
    for (const auto& four : values) {
      for (const float value : four) sum += exponential(value, highest);
    }
  }
  const float above = fmaxf(state.highest, block_max(highest, shared_highest));
  const double added = block_sum(static_cast<double>(sum) * exponential(highest, above), shared_sums);
  state.sum = added + (state.sum == 0 ? 0 : state.sum * exp(static_cast<double>(state.highest) - above));
  state.highest = above;
}

template <typename T>
__device__ void store_four(T* row, std::int64_t i, std::int64_t tokens, const Four<T>& four) {
  if (i + 4 <= tokens) {
    *reinterpret_cast<Four<T>*>(row + i) = four;
  } else {
    for (int k = 0; k < 3; ++k) {
      if (i + k < tokens) row[i + k] = four.elements[k];
    }
  }
}

// dlogits, at most as wide as the logits, overwrite those of this turn and of earlier ones, which all threads have read
// by then. `target` may lie outside of the row's tokens.
template <typename T>
__device__ void differentiate_row(const LogitRow<T>& row, T* dlogits, const RowState& state, float loss_scale,
                                  std::int64_t target) {
  const float factor = static_cast<float>(static_cast<double>(loss_scale) / state.sum);
  const float at_target = exponential(state.target_logit, state.highest) * factor - loss_scale;
  for (std::int64_t turn = 0; turn < row.tokens; turn += std::int64_t{blockDim.x} * kTurn) {
    float values[kAccesses][4];
    for (int access = 0; access < kAccesses; ++access) row.load(place(turn, access), values[access]);
    __syncthreads();
    for (int access = 0; access < kAccesses; ++access) {
      const std::int64_t i = place(turn, access);
      Four<T> four;
      for (int k = 0; k < 4; ++k) {
        const float gradient = i + k == target ? at_target : exponential(values[access][k], state.highest) * factor;
        four.elements[k] = narrow<T>(row.softcap > 0 ? gradient * row.slope(values[access][k]) : gradient);
      }
      store_four(dlogits, i, row.tokens, four);
    }
  }
}

template <typename T>
__device__ void clear_row(T* dlogits, std::int64_t tokens) {
  for (std::int64_t i = place(0, 0); i < tokens; i += std::int64_t{blockDim.x} * 4) {
    store_four(dlogits, i, tokens, Four<T>{});
  }
}

__device__ RowState load_state(const double* statistics) {
  if (statistics[1] == 0) return {-INFINITY, 0, 0};
  return {static_cast<float>(statistics[0]), static_cast<float>(statistics[2]), statistics[1]};
}

__device__ void store_state(const RowState& state, double* statistics) {
  statistics[0] = state.highest;
  statistics[1] = state.sum;
  statistics[2] = state.target_logit;
}

template <typename T, SoftmaxStep kStep>
__global__ void __launch_bounds__(kMostThreads)
    softmax_rows(const LogitPanel panel, const LaunchParameters* parameters) {
  constexpr bool kDifferentiate = kStep == SoftmaxStep::differentiate || kStep == SoftmaxStep::both;
  const std::int64_t index = blockIdx.x;
  float* const logits = panel.logits + index * panel.stride;
  const LogitRow<T> row{logits, reinterpret_cast<const T*>(panel.bias), panel.tokens, panel.softcap};
  T* const dlogits = reinterpret_cast<T*>(logits);
  double* const statistics = panel.statistics + index * 3;
  if (panel.targets[index] < 0) {
    if constexpr (kDifferentiate) clear_row(dlogits, panel.tokens);
    return;
  }
  const std::int64_t target = panel.targets[index] - panel.first - (panel.chunk ? parameters->first_token : 0);
  constexpr bool kLoad = kStep == SoftmaxStep::add || kStep == SoftmaxStep::differentiate;
  RowState state = kLoad ? load_state(statistics) : RowState{-INFINITY, 0, 0};
  if constexpr (kStep != SoftmaxStep::differentiate) {
    if (target >= 0 && target < panel.tokens) state.target_logit = row.at(target);
    if (panel.targets[index] >= panel.vocabulary) state.target_logit = NAN;
    take_row(row, state);  // all threads have read the statistics when it returns
    if (threadIdx.x == 0) store_state(state, statistics);
  }
  if constexpr (kDifferentiate) differentiate_row(row, dlogits, state, parameters->loss_scale, target);
}

constexpr int kStateThreads = 128;

__global__ void __launch_bounds__(kStateThreads)
    pack_states(const double* statistics, const std::int32_t* targets, std::int64_t rows, RowState* states) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kStateThreads + threadIdx.x;
  if (row >= rows) return;
  states[row] = targets[row] < 0 ? RowState{-INFINITY, 0, 0} : load_state(statistics + row * 3);
}

// Adds the logits of other tokens, of which some may be of the target.
__device__ void merge(RowState& state, const RowState& other) {
  if (other.sum == 0) return;
  const float together = fmaxf(state.highest, other.highest);
  const auto scaled = [=](const RowState& part) {
    return part.sum == 0 ? 0 : part.sum * exp(static_cast<double>(part.highest) - static_cast<double>(together));
  };
  state.sum = scaled(state) + scaled(other);
  state.highest = together;
  state.target_logit += other.target_logit;  // 0 of all but one
}

__global__ void __launch_bounds__(kStateThreads)
    merge_states(const RowState* states, int devices, const std::int32_t* targets, std::int64_t rows,
                 double* statistics) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kStateThreads + threadIdx.x;
  if (row >= rows || targets[row] < 0) return;
  RowState merged{-INFINITY, 0, 0};
  for (int device = 0; device < devices; ++device) merge(merged, states[device * rows + row]);
  store_state(merged, statistics + row * 3);
}

constexpr int kLossThreads = 1024;

// Each thread takes every 1024th row; then halves are added.
__global__ void __launch_bounds__(kLossThreads)
    sum_losses(const double* statistics, const std::int32_t* targets, std::int64_t rows, double* loss) {
  __shared__ double sums[kLossThreads];
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kLossThreads) {
    const double* const numbers = statistics + row * 3;
    if (targets[row] >= 0) sum += numbers[0] + log(numbers[1]) - numbers[2];
  }
  sums[threadIdx.x] = sum;
  for (int half = kLossThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss = sums[0];
}

constexpr int kNarrowThreads = 256;

template <typename T>
__global__ void narrow_elements(const float* source, T* destination, std::int64_t count) {
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kNarrowThreads + threadIdx.x) * 4;
  if (i >= count) return;
  float values[4];
  LogitRow<T>{source, nullptr, count}.load(i, values);
  Four<T> four;
  for (int k = 0; k < 4; ++k) four.elements[k] = narrow<T>(values[k]);
  store_four(destination, i, count, four);
}

// Calls `action` with a value of the element type.
void with_type(DType dtype, const auto& action) {
  switch (dtype) {
    case DType::f32:
      return action(float{});
    case DType::bf16:
      return action(__nv_bfloat16{});
    case DType::f16:
      return action(__half{});
    default:
      throw BadInput("no CUDA loss of " + std::string(name_of(dtype)));
  }
}

// Threads for a row: as many as have logits, so that small vocabularies do not keep idle ones.
unsigned int threads_of(std::int64_t tokens) {
  return 32 * std::clamp(ceil_div(tokens, 32 * kTurn), 1u, static_cast<unsigned int>(kMostWarps));
}

// Elements of T from row to row of dlogits, which lie where the f32 logits were.
template <typename T>
std::int64_t stride_of(std::int64_t stride) {
  return stride * static_cast<std::int64_t>(sizeof(float) / sizeof(T));
}

template <typename T>
auto kernel_of(SoftmaxStep step) {
  switch (step) {
    case SoftmaxStep::begin:
      return softmax_rows<T, SoftmaxStep::begin>;
    case SoftmaxStep::add:
      return softmax_rows<T, SoftmaxStep::add>;
    case SoftmaxStep::differentiate:
      return softmax_rows<T, SoftmaxStep::differentiate>;
    case SoftmaxStep::both:
      break;
  }
  return softmax_rows<T, SoftmaxStep::both>;
}

}  // namespace

void enqueue_softmax(SoftmaxStep step, DType dtype, const LogitPanel& panel, const LaunchParameters* parameters,
                     cudaStream_t stream) {
  const LaunchShape shape{dim3(static_cast<unsigned int>(panel.rows)), dim3(threads_of(panel.tokens))};
  with_type(dtype,
            [&]<typename T>(T) { launch("softmax_rows", kernel_of<T>(step), shape, stream, panel, parameters); });
}

void enqueue_pack_states(const double* statistics, const std::int32_t* targets, std::int64_t rows, RowState* states,
                         cudaStream_t stream) {
  launch("pack_states", pack_states, {ceil_div(rows, kStateThreads), kStateThreads}, stream, statistics, targets, rows,
         states);
}

void enqueue_merge_states(const RowState* states, int devices, const std::int32_t* targets, std::int64_t rows,
                          double* statistics, cudaStream_t stream) {
  launch("merge_states", merge_states, {ceil_div(rows, kStateThreads), kStateThreads}, stream, states, devices, targets,
         rows, statistics);
}

Bytes column_sums_workspace(DType dtype, std::int64_t rows, std::int64_t tokens, std::int64_t stride) {
  Bytes bytes = 0;
  with_type(dtype, [&]<typename T>(T) { bytes = ColumnSums<T>(rows, tokens, stride_of<T>(stride)).workspace(); });
  return bytes;
}

void enqueue_column_sums(DType dtype, const LogitPanel& panel, float* dbias, std::byte* workspace,
                         cudaStream_t stream) {
  with_type(dtype, [&]<typename T>(T) {
    const std::int64_t stride = stride_of<T>(panel.stride);
    const MatrixSource<T> source{{}, reinterpret_cast<const T*>(panel.logits), stride};
    ColumnSums<T>(panel.rows, panel.tokens, stride).enqueue("column_sums", source, workspace, dbias, stream);
  });
}

void enqueue_loss(const double* statistics, const std::int32_t* targets, std::int64_t rows, double* loss,
                  cudaStream_t stream) {
  launch("sum_losses", sum_losses, {dim3(1), dim3(kLossThreads)}, stream, statistics, targets, rows, loss);
}

void enqueue_narrow(DType dtype, const float* source, std::byte* destination, std::int64_t count, cudaStream_t stream) {
  with_type(dtype, [&]<typename T>(T) {
    const LaunchShape shape{dim3(ceil_div(count, std::int64_t{kNarrowThreads} * 4)), dim3(kNarrowThreads)};
    launch("narrow_elements", narrow_elements<T>, shape, stream, source, reinterpret_cast<T*>(destination), count);
  });
}

}  // namespace l2l::device::cuda
