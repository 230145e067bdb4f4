// Work of one head: 4 S^2 d operations for S rows of d elements (half of it when causal). First D = dP . P per row;
// then, with dS = P (dP - D), blocks that own queries make dq = dS k / sqrt(d) and blocks that own keys make
// dk = dS^T q / sqrt(d), each in a fixed order.
#include "device/kernels/common/reduce.cuh"
#include "device/kernels/core_attention.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

constexpr int kRowThreads = 256;
constexpr int kRowsPerBlock = kRowThreads / 32;  // a warp each

template <typename T>
__global__ __launch_bounds__(kRowThreads) void softmax_products(const AttentionProblem problem, const T* dprobabilities,
                                                                const T* probabilities, float* products) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / 32;
  if (row >= problem.tasks() * problem.sequence) return;  // all lanes of the warp
  const int lane = threadIdx.x % 32, i = static_cast<int>(row % problem.sequence);
  const int seen = problem.seen_by(i);
  float sum = 0;
  for (int j = lane; j < seen; j += 32) {
    const std::int64_t element = row * problem.sequence + j;
    sum = fmaf(widen(dprobabilities[element]), widen(probabilities[element]), sum);
  }
  sum = warp_sum(sum);
  if (lane == 0) products[row] = sum;
}

// Operands of both kernels below.
template <typename T>
struct Softmax {
  const T *dprobabilities, *probabilities;
  const float* products;  // [tasks][sequence]

  __device__ float operator()(std::int64_t row, std::int64_t element) const {
    return widen(probabilities[element]) * (widen(dprobabilities[element]) - products[row]);
  }
};

// The same where scores are capped: each score is made again, for the cap's slope.
template <typename T>
struct CappedSoftmax {
  const AttentionProblem& problem;
  const Softmax<T>& softmax;
  const T* qkv;

  __device__ float operator()(std::int64_t row, std::int64_t element) const {
    const float gradient = softmax(row, element);
    if (problem.cap == 0) return gradient;
    const std::int64_t task = row / problem.sequence, i = row % problem.sequence;
    const std::int64_t j = element - row * problem.sequence, sequence = task / problem.heads;
    const int head = static_cast<int>(task % problem.heads);
    const T* const query = qkv + problem.query_offset(sequence, head) + i * problem.qkv_stride();
    const T* const key = qkv + problem.key_offset(sequence, head / problem.group()) + j * problem.qkv_stride();
    float score = 0;
    for (int d = 0; d < problem.head_dim; ++d) score = fmaf(widen(query[d]), widen(key[d]), score);
    return gradient * plain::cap_slope(problem, plain::cap_score(problem, score));
  }
};

template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(core::kThreads) void attention_probabilities_backward_queries(
    const AttentionProblem problem, const Softmax<T> softmax, const T* qkv, const T* other, T* dqkv) {
  using Tiles = core::Tile<T, kDim, kTile>;
  float* const keys = dynamic_shared<float>();
  float* const dscores = keys + Tiles::kElements;
  const core::Place place = plain::place_of_queries<kTile>(problem);
  const int seen = core::seen_by(problem, place);
  const std::int64_t stride = problem.qkv_stride();
  const T* const key = qkv + problem.key_offset(place.sequence, place.kv_head);

  float dq[Tiles::kPer][Tiles::kWide];
  Tiles::clear(dq);
  for (int j = 0; j < seen; j += kTile) {
    __syncthreads();
    Tiles::load(keys, key + j * stride, stride, min(kTile, seen - j), problem.head_dim);
    Tiles::fill(dscores, problem, place.task, place.first, j, CappedSoftmax<T>{problem, softmax, qkv});
    __syncthreads();
    Tiles::template accumulate<false>(dq, dscores, keys);
  }
  const std::int64_t first = problem.query_offset(place.sequence, place.head) + place.first * stride;
  Tiles::store_sum(dqkv + first, other == nullptr ? nullptr : other + first, stride, place.rows, problem.head_dim, dq,
                   problem.scale);
}

// Also passes on what `other` has of the values.
template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(core::kThreads) void attention_probabilities_backward_keys(const AttentionProblem problem,
                                                                                        const Softmax<T> softmax,
                                                                                        const T* qkv, const T* other,
                                                                                        T* dqkv) {
  using Tiles = core::Tile<T, kDim, kTile>;
  float* const queries = dynamic_shared<float>();
  float* const dscores = queries + Tiles::kElements;
  const core::Place place = plain::place_of_keys<kTile>(problem);
  const std::int64_t stride = problem.qkv_stride();

  float dk[Tiles::kPer][Tiles::kWide];
  Tiles::clear(dk);
  for (int member = 0; member < problem.group(); ++member) {
    const T* const query = qkv + problem.query_offset(place.sequence, place.head + member);
    for (int i = problem.causal ? place.first : 0; i < problem.sequence; i += kTile) {
      __syncthreads();
      Tiles::load(queries, query + i * stride, stride, min(kTile, problem.sequence - i), problem.head_dim);
      Tiles::fill(dscores, problem, place.task + member, i, place.first, CappedSoftmax<T>{problem, softmax, qkv});
      __syncthreads();
      Tiles::template accumulate<true>(dk, dscores, queries);
    }
  }
  const std::int64_t first = problem.key_offset(place.sequence, place.kv_head) + place.first * stride;
  Tiles::store_sum(dqkv + first, other == nullptr ? nullptr : other + first, stride, place.rows, problem.head_dim, dk,
                   problem.scale);
  const std::int64_t value = problem.value_offset(place.sequence, place.kv_head) + place.first * stride;
  for (int k = static_cast<int>(threadIdx.x); k < place.rows * problem.head_dim; k += core::kThreads) {
    const std::int64_t at = value + k / problem.head_dim * stride + k % problem.head_dim;
    dqkv[at] = other == nullptr ? narrow<T>(0.0f) : other[at];
  }
}

template <typename T>
class AttentionProbabilitiesBackward final : public Kernel {
 public:
  AttentionProbabilitiesBackward(const Context&, const OpView& op)
      : problem_(op.input(2), op.attributes),
        queries_(core::part_for<T>(
            problem_.head_dim, 1, 1,
            [&]<int kDim, int kTile>() { return attention_probabilities_backward_queries<T, kDim, kTile>; })),
        keys_(core::part_for<T>(
            problem_.head_dim, 1, 1,
            [&]<int kDim, int kTile>() { return attention_probabilities_backward_keys<T, kDim, kTile>; })),
        other_(op.inputs.size() > 3) {
    op.require_dtype(op.input(2).dtype, {0, 1, 3});
    if (other_) op.require_dtype(op.input(2).dtype, {4});
  }

  Bytes workspace() const override { return static_cast<Bytes>(problem_.tasks() * problem_.sequence) * sizeof(float); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    float* const products = as<float>(workspace);
    const Softmax<T> softmax{as<const T>(operands[0]), as<const T>(operands[1]), products};
    const T* const other = other_ ? as<const T>(operands[3]) : nullptr;
    launch("softmax_products", softmax_products<T>,
           {ceil_div(problem_.tasks() * problem_.sequence, kRowsPerBlock), kRowThreads}, stream, problem_,
           softmax.dprobabilities, softmax.probabilities, products);
    queries_.run("attention_probabilities_backward (queries)", problem_, problem_.tasks(), stream, softmax,
                 as<const T>(operands[2]), other, as<T>(operands.back()));
    keys_.run("attention_probabilities_backward (keys)", problem_, problem_.sequences * problem_.kv_heads, stream,
              softmax, as<const T>(operands[2]), other, as<T>(operands.back()));
  }

 private:
  using Part = core::Part<void(AttentionProblem, Softmax<T>, const T*, const T*, T*)>;

  AttentionProblem problem_;
  Part queries_, keys_;
  bool other_;
};

}  // namespace

const Factory make_attention_probabilities_backward = make_for_input<AttentionProbabilitiesBackward, 2>;

}  // namespace l2l::device::cuda
