// Work of one head of one row: 4 n d operations for n rows that it sees, and as many rows of keys and values are read.
#include <cmath>

#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/reduce.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMostHead = 256;                // elements
constexpr int kMostPerLane = kMostHead / 32;  // of these, those of a lane
constexpr float kLowest = -1e30f;             // score of a warp that has seen nothing

struct CacheProblem {
  std::int64_t rows;
  int sequence, capacity, heads, kv_heads, head_dim, window;
  float scale, softcap;

  __host__ __device__ std::int64_t width() const { return static_cast<std::int64_t>(heads + 2 * kv_heads) * head_dim; }
  __host__ __device__ std::int64_t cached() const { return 2 * static_cast<std::int64_t>(kv_heads) * head_dim; }
  // An end that the cache has no room for counts as none.
  __device__ int end_of(const std::int32_t* documents, std::int64_t row) const {
    const int end = documents[rows + row];
    return end >= 0 && end <= capacity ? end : 0;
  }
};

// A block for each row: its keys and values go into the cache.
template <typename T>
__global__ void store_rows(const CacheProblem problem, const T* qkv, const std::int32_t* documents, T* cache) {
  const std::int64_t row = blockIdx.x;
  const int end = problem.end_of(documents, row);
  if (end == 0) return;
  const T* const own = qkv + row * problem.width() + static_cast<std::int64_t>(problem.heads) * problem.head_dim;
  T* const place = cache + (row / problem.sequence * problem.capacity + end - 1) * problem.cached();
  for (std::int64_t i = threadIdx.x; i < problem.cached(); i += blockDim.x) place[i] = own[i];
}

// A block for each head of each row. A warp takes every fourth row that is seen, with its softmax so far (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018); a lane every 32nd element of the head. The warps'
// sums are added in their order.
template <typename T>
__global__ void __launch_bounds__(32 * kWarps)
    attend(const CacheProblem problem, const T* qkv, const std::int32_t* documents, const T* cache, T* y) {
  __shared__ float sums[kWarps][kMostHead], highest_of[kWarps], total_of[kWarps];
  const std::int64_t row = blockIdx.x / problem.heads;
  const int head = static_cast<int>(blockIdx.x % problem.heads), dim = problem.head_dim;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int end = problem.end_of(documents, row), first = max(documents[row], max(0, end - problem.window));
  const T* const keys = cache + row / problem.sequence * problem.capacity * problem.cached() +
                        static_cast<std::int64_t>(head / (problem.heads / problem.kv_heads)) * dim;
  const std::int64_t values = static_cast<std::int64_t>(problem.kv_heads) * dim;  // behind the keys
  const T* const query = qkv + row * problem.width() + static_cast<std::int64_t>(head) * dim;
  float q[kMostPerLane], sum[kMostPerLane];
#pragma unroll
  for (int u = 0; u < kMostPerLane; ++u) {
    const int d = lane + 32 * u;
    q[u] = d < dim ? widen(query[d]) * problem.scale : 0.0f;
    sum[u] = 0;
  }
  float highest = kLowest, total = 0;
  for (int j = first + warp; j < end; j += kWarps) {
    const T* const key = keys + j * problem.cached();
    float part = 0;
#pragma unroll
    for (int u = 0; u < kMostPerLane; ++u) {
      const int d = lane + 32 * u;
      if (d < dim) part = fmaf(q[u], widen(key[d]), part);
    }
    float score = warp_sum(part);
    if (problem.softcap > 0) score = problem.softcap * tanhf(score / problem.softcap);
    const float now = fmaxf(highest, score), before = expf(highest - now), weight = expf(score - now);
    highest = now;
    total = fmaf(total, before, weight);
#pragma unroll
    for (int u = 0; u < kMostPerLane; ++u) {
      const int d = lane + 32 * u;
      if (d < dim) sum[u] = fmaf(sum[u], before, weight * widen(key[values + d]));
    }
  }
#pragma unroll
  for (int u = 0; u < kMostPerLane; ++u) sums[warp][lane + 32 * u] = sum[u];
  if (lane == 0) {
    highest_of[warp] = highest;
    total_of[warp] = total;
  }
  __syncthreads();
  float top = kLowest, all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) top = fmaxf(top, highest_of[w]);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) all += total_of[w] * expf(highest_of[w] - top);
  for (int d = static_cast<int>(threadIdx.x); d < dim; d += 32 * kWarps) {
    float mixed = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) mixed = fmaf(sums[w][d], expf(highest_of[w] - top), mixed);
    y[(row * problem.heads + head) * dim + d] = narrow<T>(end > 0 ? mixed / all : 0.0f);
  }
}

template <typename T>
class CachedAttention final : public Kernel {
 public:
  CachedAttention(const Context&, const OpView& op) {
    const compiler::Attributes& attributes = op.attributes;
    problem_.rows = op.input(0).shape[0];
    problem_.sequence = attributes.sequence;
    problem_.capacity = attributes.capacity;
    problem_.heads = attributes.heads;
    problem_.kv_heads = compiler::kv_heads(attributes);
    problem_.head_dim = static_cast<int>(op.input(0).shape[1] / (problem_.heads + 2 * problem_.kv_heads));
    if (problem_.head_dim > kMostHead) {
      throw BadInput("heads of " + std::to_string(problem_.head_dim) + " elements, at most " +
                     std::to_string(kMostHead) + ": use more heads");
    }
    problem_.window = attributes.window > 0 ? attributes.window : attributes.capacity;
    problem_.scale = attributes.scale > 0 ? attributes.scale : 1.0f / std::sqrt(static_cast<float>(problem_.head_dim));
    problem_.softcap = attributes.softcap;
    op.require_dtype(op.input(0).dtype, {2, 3});
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    const T* const qkv = as<const T>(operands[0]);
    const auto* const documents = as<const std::int32_t>(operands[1]);
    T* const cache = as<T>(operands[3]);
    launch("cached_attention", store_rows<T>, {static_cast<unsigned int>(problem_.rows), 128}, stream, problem_, qkv,
           documents, cache);
    launch("cached_attention", attend<T>, {static_cast<unsigned int>(problem_.rows * problem_.heads), 32 * kWarps},
           stream, problem_, qkv, documents, cache, as<T>(operands[2]));
  }

 private:
  CacheProblem problem_{};
};

}  // namespace

const Factory make_cached_attention = make_for_input<CachedAttention>;

}  // namespace l2l::device::cuda
