// Work of one head: 4 S^2 d operations for S rows of d elements (half of it when causal), since scores are made twice,
// for the sums and for the probabilities; S^2 elements written.
#include "device/kernels/core_attention_tensor.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace tensor {

// probabilities: in a first round of tiles each row's highest score and its sum of 2^(score - highest), in a second one
// what comes of them.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    attention_probabilities(const AttentionProblem problem, const T* qkv, const std::int32_t* documents,
                            T* probabilities) {
  using Shape = ToMatrix<T, kDim>;
  using HeadRows = Rows<T, kDim>;
  constexpr int kBlocks = Shape::kBlocks, kTile = Shape::kTile, kWarpRows = Shape::kWarpRows;
  T* const queries = dynamic_shared<T>();
  const core::Place place = plain::place_of_queries<Shape::kOwn>(problem);
  const SeenRows<true> seen_rows(problem, documents, place.sequence);
  const std::int64_t stride = problem.qkv_stride();

  HeadRows::template load<Shape::kOwn>(queries,
                                       qkv + problem.query_offset(place.sequence, place.head) + place.first * stride,
                                       stride, place.rows, problem.head_dim);
  commit_copies();
  const HeadSource<T> source{qkv + problem.key_offset(place.sequence, place.kv_head), stride, problem.sequence,
                             problem.head_dim};
  TileStream<T, kDim, kTile> keys(queries + Shape::kOwn * HeadRows::kStride, source,
                                  seen_rows.first(place.first) / kTile * kTile,
                                  seen_rows.end(place.first + place.rows - 1), 2, 0);
  const int own = kWarpRows * warp_index(), own_first = place.first + own;  // this warp's queries
  T* const matrix = probabilities + problem.matrix_offset(place.task, 0);
  clear_unseen<kTile>(matrix, seen_rows, own_first, kWarpRows);
  wait_for_copies<1>();
  HeadRows::template round<Shape::kOwn>(queries);

  // Returns whether there are any.
  const auto make_scores = [&](Sums<kBlocks, kTile>& scores) {
    keys.load_next();
    const T* const tile = keys.await();
    if (!any_seen(seen_rows, own_first, kWarpRows, keys.first, kTile)) return false;
    HeadRows::template dot_products<kBlocks, kTile>(
        scores, tile, [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, queries, own + 16 * m, k); });
    if (!all_seen(seen_rows, own_first, kWarpRows, keys.first, kTile)) {
      mask_scores(scores, seen_rows, own_first, keys.first, -INFINITY);
    }
    return true;
  };
  const float to_log2 = problem.scale * 1.4426950408889634f;
  OnlineSoftmax<kBlocks> softmax;
  for (; keys.round == 0; keys.release()) {
    Sums<kBlocks, kTile> scores;
    if (make_scores(scores)) softmax.add(scores, to_log2, [](int, int, float) {});
  }
  float shifts[kBlocks][2], factors[kBlocks][2];
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      shifts[m][half] = softmax.highest[m][half] * to_log2;
      factors[m][half] = 1.0f / row_sum(softmax.total[m][half]);
    }
  }
  for (; keys.more(); keys.release()) {
    Sums<kBlocks, kTile> scores;
    if (!make_scores(scores)) continue;
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float weight = exp2_fast(fmaf(scores.tiles[m][n][e], to_log2, -shifts[m][e / 2]));
          scores.tiles[m][n][e] = weight * factors[m][e / 2];
        }
      }
    }
    store_by_query(matrix, scores, problem.sequence, own_first, keys.first);
  }
}

}  // namespace tensor

namespace {

constexpr float kMasked = -1e30f;  // score of what a query does not see

// What a thread knows of its rows of queries: in the base 2, the highest score and the sum of 2^(score - highest).
template <typename Tiles>
struct RowSums {
  float highest[Tiles::kPer], total[Tiles::kPer];

  __device__ RowSums() {
#pragma unroll
    for (int r = 0; r < Tiles::kPer; ++r) {
      highest[r] = kMasked;
      total[r] = 0;
    }
  }

  // The highest is that of all lanes of a row, the total this thread's own.
  __device__ void add(const float (&scores)[Tiles::kPer][Tiles::kPer]) {
#pragma unroll
    for (int r = 0; r < Tiles::kPer; ++r) {
      float largest = highest[r];
#pragma unroll
      for (int c = 0; c < Tiles::kPer; ++c) largest = fmaxf(largest, scores[r][c]);
      largest = plain::row_max(largest);
      total[r] *= exp2f(highest[r] - largest);
      highest[r] = largest;
#pragma unroll
      for (int c = 0; c < Tiles::kPer; ++c) total[r] += exp2f(scores[r][c] - largest);
    }
  }

  __device__ void finish() {
#pragma unroll
    for (int r = 0; r < Tiles::kPer; ++r) total[r] = plain::row_sum(total[r]);
  }
};

template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(core::kThreads) void attention_probabilities(const AttentionProblem problem, const T* qkv,
                                                                          const std::int32_t* documents,
                                                                          T* probabilities) {
  using Tiles = core::Tile<T, kDim, kTile>;
  float* const queries = dynamic_shared<float>();
  float* const keys = queries + Tiles::kElements;
  const core::Place place = plain::place_of_queries<kTile>(problem);
  const SeenRows<true> seen_rows(problem, documents, place.sequence);
  const int seen = seen_rows.end(place.first + place.rows - 1);
  const std::int64_t stride = problem.qkv_stride();
  const T* const key = qkv + problem.key_offset(place.sequence, place.kv_head);
  const float to_log2 = problem.scale * 1.4426950408889634f;
  const int tx = threadIdx.x % core::kSide, ty = threadIdx.x / core::kSide;

  Tiles::load(queries, qkv + problem.query_offset(place.sequence, place.head) + place.first * stride, stride,
              place.rows, problem.head_dim);
  const auto score = [&](float(&scores)[Tiles::kPer][Tiles::kPer], int j) {
    __syncthreads();
    Tiles::load(keys, key + j * stride, stride, min(kTile, seen - j), problem.head_dim);
    __syncthreads();
    Tiles::products(scores, queries, keys);
#pragma unroll
    for (int r = 0; r < Tiles::kPer; ++r) {
      const int i = place.first + ty * Tiles::kPer + r;
#pragma unroll
      for (int c = 0; c < Tiles::kPer; ++c) {
        const bool visible = core::sees(seen_rows, i, j + tx + core::kSide * c);
        scores[r][c] = visible ? plain::cap_score(problem, scores[r][c]) * to_log2 : kMasked;
      }
    }
  };

  RowSums<Tiles> sums;
  for (int j = 0; j < seen; j += kTile) {
    float scores[Tiles::kPer][Tiles::kPer];
    score(scores, j);
    sums.add(scores);
  }
  sums.finish();
  int done = 0;
  for (; done < seen; done += kTile) {
    float scores[Tiles::kPer][Tiles::kPer];
    score(scores, done);
#pragma unroll
    for (int r = 0; r < Tiles::kPer; ++r) {
#pragma unroll
      for (int c = 0; c < Tiles::kPer; ++c) scores[r][c] = exp2f(scores[r][c] - sums.highest[r]) / sums.total[r];
    }
    Tiles::store_matrix(probabilities, problem, seen_rows, place.task, place.first, done, scores);
  }
  if (done < problem.sequence) Tiles::clear_rest(probabilities, problem, place, done);
}

template <typename T>
class AttentionProbabilities final : public Kernel {
 public:
  AttentionProbabilities(const Context& context, const OpView& op)
      : problem_(op.input(0), op.attributes), part_(choose(problem_, context.tf32)) {
    op.require_dtype(op.input(0).dtype, {op.inputs.size()});
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    part_.run("attention_probabilities", problem_, problem_.tasks(), stream, as<const T>(operands[0]),
              operands.size() > 2 ? as<const std::int32_t>(operands[1]) : nullptr, as<T>(operands.back()));
  }

 private:
  using Part = core::Part<void(AttentionProblem, const T*, const std::int32_t*, T*)>;

  static Part choose(const AttentionProblem& problem, bool tf32) {
    if (tensor::takes<T>(problem, tf32)) {
      return tensor::part_for<T, tensor::ToMatrix>(
          problem.head_dim, [&]<int kDim>() { return tensor::attention_probabilities<T, kDim>; });
    }
    return core::part_for<T>(problem.head_dim, 2, 0,
                             [&]<int kDim, int kTile>() { return attention_probabilities<T, kDim, kTile>; });
  }

  AttentionProblem problem_;
  Part part_;
};

}  // namespace

const Factory make_attention_probabilities = make_for_input<AttentionProbabilities>;

}  // namespace l2l::device::cuda
