// Work of one head: 4 S^2 d operations for S rows of d elements (half of it when causal). First D = dP . P per row;
// then, with dS = P (dP - D), blocks that own queries make dq = dS k / sqrt(d) and blocks that own keys make
// dk = dS^T q / sqrt(d), each in a fixed order.
#include "device/kernels/common/reduce.cuh"
#include "device/kernels/core_attention_tensor.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace tensor {

// sums = sums times `scale`, plus the first `valid` rows of `other`, which may be null.
template <typename T, int kBlocks, int kDim>
__device__ inline void scale_and_add(Sums<kBlocks, kDim>& sums, float scale, const T* other, std::int64_t stride,
                                     int valid, int head_dim) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * m + 8 * half + lane_group();
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const int d = 8 * n + 2 * lane_in_group();
        float* const own = sums.tiles[m][n] + 2 * half;
        Pair<T> pair{narrow<T>(0.0f), narrow<T>(0.0f)};
        if (other != nullptr && row < valid && d < head_dim) {
          pair = *reinterpret_cast<const Pair<T>*>(other + row * stride + d);
        }
        own[0] = fmaf(own[0], scale, widen(pair.first));
        own[1] = fmaf(own[1], scale, widen(pair.second));
      }
    }
  }
}

// Copies rows of a head by a block; zeros without a source.
template <typename T>
__device__ inline void pass_on(const T* source, T* destination, std::int64_t stride, int rows, int head_dim) {
  const int chunks = head_dim / kPack<T>;
  for (int k = static_cast<int>(threadIdx.x); k < rows * chunks; k += kThreads) {
    const std::int64_t at = k / chunks * stride + k % chunks * kPack<T>;
    Pack<T> pack;
#pragma unroll
    for (int e = 0; e < kPack<T>; ++e) pack.elements[e] = narrow<T>(0.0f);
    if (source != nullptr) pack = load_pack(source + at);
    store_pack(destination + at, pack);
  }
}

// dq = dscores k scale + other's.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    attention_probabilities_backward_queries(const AttentionProblem problem, const core::SoftmaxGradient<T> softmax,
                                             const T* qkv, const T* other, T* dqkv) {
  using Shape = FromMatrix<T, kDim>;
  using HeadRows = Rows<T, kDim>;
  constexpr int kBlocks = Shape::kBlocks, kTile = Shape::kTile, kWarpRows = Shape::kWarpRows;
  T* const shared = dynamic_shared<T>();
  const core::Place place = plain::place_of_queries<Shape::kOwn>(problem);
  const SeenRows<false> seen_rows(problem, nullptr, place.sequence);
  const std::int64_t stride = problem.qkv_stride(), matrix = problem.matrix_offset(place.task, 0);

  const HeadSource<T> source{qkv + problem.key_offset(place.sequence, place.kv_head), stride, problem.sequence,
                             problem.head_dim};
  TileStream<T, kDim, kTile> keys(shared, source, seen_rows.first(place.first) / kTile * kTile,
                                  seen_rows.end(place.first + place.rows - 1), 1, 0);
  const int own = kWarpRows * warp_index(), own_first = place.first + own;  // this warp's queries
  float products[kBlocks][2];
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = own_first + 16 * m + 8 * half + lane_group();
      products[m][half] = i < problem.sequence ? softmax.products[place.task * problem.sequence + i] : 0.0f;
    }
  }
  Sums<kBlocks, kDim> dq;
  dq.clear();
  for (; keys.more(); keys.release()) {
    keys.load_next();
    const bool any = any_seen(seen_rows, own_first, kWarpRows, keys.first, kTile);
    Sums<kBlocks, kTile> dscores;
    if (any) {
      const bool all = all_seen(seen_rows, own_first, kWarpRows, keys.first, kTile);
      Sums<kBlocks, kTile> weights;
      load_by_query(weights, softmax.probabilities + matrix, problem, own_first, keys.first, all);
      load_by_query(dscores, softmax.dprobabilities + matrix, problem, own_first, keys.first, all);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
        for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            dscores.tiles[m][n][e] = weights.tiles[m][n][e] * (dscores.tiles[m][n][e] - products[m][e / 2]);
          }
        }
      }
    }
    const T* const tile = keys.await();
    if (any) HeadRows::template accumulate<kBlocks, kTile>(dq, dscores, tile);
  }
  const std::int64_t first = problem.query_offset(place.sequence, place.head) + own_first * stride;
  scale_and_add(dq, problem.scale, other == nullptr ? nullptr : other + first, stride, place.rows - own,
                problem.head_dim);
  HeadRows::template store<kBlocks>(
      dq, [](int, int) { return 1.0f; }, shared + own * HeadRows::kStride, dqkv + first, stride, place.rows - own,
      problem.head_dim);
}

// dk = dscores^T q scale + other's, over the heads of queries that share k; of the values, other's.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    attention_probabilities_backward_keys(const AttentionProblem problem, const core::SoftmaxGradient<T> softmax,
                                          const T* qkv, const T* other, T* dqkv) {
  using Shape = FromMatrix<T, kDim>;
  using HeadRows = Rows<T, kDim>;
  constexpr int kBlocks = Shape::kBlocks, kTile = Shape::kTile, kWarpRows = Shape::kWarpRows;
  T* const shared = dynamic_shared<T>();
  const core::Place place = plain::place_of_keys<Shape::kOwn>(problem);
  const SeenRows<false> seen_rows(problem, nullptr, place.sequence);
  const std::int64_t stride = problem.qkv_stride();

  const HeadSource<T> source{qkv + problem.query_offset(place.sequence, place.head), stride, problem.sequence,
                             problem.head_dim};
  TileStream<T, kDim, kTile> queries(shared, source, seen_rows.seers_begin(place.first) / kTile * kTile,
                                     seen_rows.seers_end(place.first + place.rows - 1), problem.group(),
                                     problem.head_dim);
  const std::int64_t value = problem.value_offset(place.sequence, place.kv_head) + place.first * stride;
  pass_on(other == nullptr ? nullptr : other + value, dqkv + value, stride, place.rows, problem.head_dim);
  const int own = kWarpRows * warp_index(), own_first = place.first + own;  // this warp's keys
  Sums<kBlocks, kDim> dk;
  dk.clear();
  for (; queries.more(); queries.release()) {
    queries.load_next();
    const bool any = any_seen(seen_rows, queries.first, kTile, own_first, kWarpRows);
    Sums<kBlocks, kTile> dscores;
    if (any) {
      const bool all = all_seen(seen_rows, queries.first, kTile, own_first, kWarpRows);
      const std::int64_t task = place.task + queries.round, matrix = problem.matrix_offset(task, 0);
      Sums<kBlocks, kTile> weights;
      load_by_key(weights, softmax.probabilities + matrix, problem, queries.first, own_first, all);
      load_by_key(dscores, softmax.dprobabilities + matrix, problem, queries.first, own_first, all);
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
        float products[2];
#pragma unroll
        for (int u = 0; u < 2; ++u) {
          const int i = queries.first + 8 * n + 2 * lane_in_group() + u;
          products[u] = i < problem.sequence ? softmax.products[task * problem.sequence + i] : 0.0f;
        }
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            dscores.tiles[m][n][e] = weights.tiles[m][n][e] * (dscores.tiles[m][n][e] - products[e % 2]);
          }
        }
      }
    }
    const T* const tile = queries.await();
    if (any) HeadRows::template accumulate<kBlocks, kTile>(dk, dscores, tile);
  }
  const std::int64_t first = problem.key_offset(place.sequence, place.kv_head) + own_first * stride;
  scale_and_add(dk, problem.scale, other == nullptr ? nullptr : other + first, stride, place.rows - own,
                problem.head_dim);
  HeadRows::template store<kBlocks>(
      dk, [](int, int) { return 1.0f; }, shared + own * HeadRows::kStride, dqkv + first, stride, place.rows - own,
      problem.head_dim);
}

}  // namespace tensor

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

// Gradients of scores where these may be capped: then each score is made again, for the cap's slope.
template <typename T>
struct CappedSoftmax {
  const AttentionProblem& problem;
  const core::SoftmaxGradient<T>& softmax;
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
    const AttentionProblem problem, const core::SoftmaxGradient<T> softmax, const T* qkv, const T* other, T* dqkv) {
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
__global__ __launch_bounds__(core::kThreads) void attention_probabilities_backward_keys(
    const AttentionProblem problem, const core::SoftmaxGradient<T> softmax, const T* qkv, const T* other, T* dqkv) {
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
  AttentionProbabilitiesBackward(const Context& context, const OpView& op)
      : problem_(op.input(2), op.attributes),
        queries_(choose_queries(problem_, context.tf32)),
        keys_(choose_keys(problem_, context.tf32)),
        other_(op.inputs.size() > 3) {
    op.require_dtype(op.input(2).dtype, {0, 1, 3});
    if (other_) op.require_dtype(op.input(2).dtype, {4});
  }

  Bytes workspace() const override { return static_cast<Bytes>(problem_.tasks() * problem_.sequence) * sizeof(float); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    float* const products = as<float>(workspace);
    const core::SoftmaxGradient<T> softmax{as<const T>(operands[0]), as<const T>(operands[1]), products};
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
  using Part = core::Part<void(AttentionProblem, core::SoftmaxGradient<T>, const T*, const T*, T*)>;

  static Part choose_queries(const AttentionProblem& problem, bool tf32) {
    if (tensor::takes<T>(problem, tf32)) {
      return tensor::part_for<T, tensor::FromMatrix>(
          problem.head_dim, [&]<int kDim>() { return tensor::attention_probabilities_backward_queries<T, kDim>; });
    }
    return core::part_for<T>(problem.head_dim, 1, 1, [&]<int kDim, int kTile>() {
      return attention_probabilities_backward_queries<T, kDim, kTile>;
    });
  }
  static Part choose_keys(const AttentionProblem& problem, bool tf32) {
    if (tensor::takes<T>(problem, tf32)) {
      return tensor::part_for<T, tensor::FromMatrix>(
          problem.head_dim, [&]<int kDim>() { return tensor::attention_probabilities_backward_keys<T, kDim>; });
    }
    return core::part_for<T>(problem.head_dim, 1, 1, [&]<int kDim, int kTile>() {
      return attention_probabilities_backward_keys<T, kDim, kTile>;
    });
  }

  AttentionProblem problem_;
  Part queries_, keys_;
  bool other_;
};

}  // namespace

const Factory make_attention_probabilities_backward = make_for_input<AttentionProbabilitiesBackward, 2>;

}  // namespace l2l::device::cuda
