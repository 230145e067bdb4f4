// Work of one head: 4 S^2 d operations for S rows of d elements (half of it when causal), in two kernels: blocks that
// own queries make dprobabilities = dy v^T, blocks that own keys make dv = probabilities^T dy, in a fixed order.
#include "device/kernels/common/check.h"
#include "device/kernels/core_attention_tensor.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace tensor {

// dprobabilities = dy v^T.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    attention_mix_backward_probabilities(const AttentionProblem problem, const T* dy, const T* qkv, T* dprobabilities) {
  using Shape = ToMatrix<T, kDim>;
  using HeadRows = Rows<T, kDim>;
  constexpr int kBlocks = Shape::kBlocks, kTile = Shape::kTile, kWarpRows = Shape::kWarpRows;
  T* const gradients = dynamic_shared<T>();  // dy
  const core::Place place = plain::place_of_queries<Shape::kOwn>(problem);
  const SeenRows<false> seen_rows(problem, nullptr, place.sequence);

  HeadRows::template load<Shape::kOwn>(
      gradients, dy + problem.y_offset(place.sequence, place.head) + place.first * problem.y_stride(),
      problem.y_stride(), place.rows, problem.head_dim);
  commit_copies();
  const HeadSource<T> source{qkv + problem.value_offset(place.sequence, place.kv_head), problem.qkv_stride(),
                             problem.sequence, problem.head_dim};
  TileStream<T, kDim, kTile> values(gradients + Shape::kOwn * HeadRows::kStride, source,
                                    seen_rows.first(place.first) / kTile * kTile,
                                    seen_rows.end(place.first + place.rows - 1), 1, 0);
  const int own = kWarpRows * warp_index(), own_first = place.first + own;  // this warp's queries
  T* const matrix = dprobabilities + problem.matrix_offset(place.task, 0);
  clear_unseen<kTile>(matrix, seen_rows, own_first, kWarpRows);
  wait_for_copies<1>();
  HeadRows::template round<Shape::kOwn>(gradients);

  for (; values.more(); values.release()) {
    values.load_next();
    const T* const tile = values.await();
    if (!any_seen(seen_rows, own_first, kWarpRows, values.first, kTile)) continue;
    Sums<kBlocks, kTile> products;
    HeadRows::template dot_products<kBlocks, kTile>(
        products, tile, [&](std::uint32_t(&a)[4], int m, int k) { HeadRows::left(a, gradients, own + 16 * m, k); });
    if (!all_seen(seen_rows, own_first, kWarpRows, values.first, kTile)) {
      mask_scores(products, seen_rows, own_first, values.first, 0.0f);
    }
    store_by_query(matrix, products, problem.sequence, own_first, values.first);
  }
}

// dv = probabilities^T dy, over the heads of queries that share v.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    attention_mix_backward_values(const AttentionProblem problem, const T* dy, const T* probabilities, T* dqkv) {
  using Shape = FromMatrix<T, kDim>;
  using HeadRows = Rows<T, kDim>;
  constexpr int kBlocks = Shape::kBlocks, kTile = Shape::kTile, kWarpRows = Shape::kWarpRows;
  T* const shared = dynamic_shared<T>();
  const core::Place place = plain::place_of_keys<Shape::kOwn>(problem);
  const SeenRows<false> seen_rows(problem, nullptr, place.sequence);

  const HeadSource<T> source{dy + problem.y_offset(place.sequence, place.head), problem.y_stride(), problem.sequence,
                             problem.head_dim};
  TileStream<T, kDim, kTile> gradients(shared, source, seen_rows.seers_begin(place.first) / kTile * kTile,
                                       seen_rows.seers_end(place.first + place.rows - 1), problem.group(),
                                       problem.head_dim);
  const int own = kWarpRows * warp_index(), own_first = place.first + own;  // this warp's keys
  Sums<kBlocks, kDim> dv;
  dv.clear();
  for (; gradients.more(); gradients.release()) {
    gradients.load_next();
    const bool any = any_seen(seen_rows, gradients.first, kTile, own_first, kWarpRows);
    Sums<kBlocks, kTile> weights;
    if (any) {
      load_by_key(weights, probabilities + problem.matrix_offset(place.task + gradients.round, 0), problem,
                  gradients.first, own_first, all_seen(seen_rows, gradients.first, kTile, own_first, kWarpRows));
    }
    const T* const tile = gradients.await();
    if (any) HeadRows::template accumulate<kBlocks, kTile>(dv, weights, tile);
  }
  HeadRows::template store<kBlocks>(
      dv, [](int, int) { return 1.0f; }, shared + own * HeadRows::kStride,
      dqkv + problem.value_offset(place.sequence, place.kv_head) + own_first * problem.qkv_stride(),
      problem.qkv_stride(), place.rows - own, problem.head_dim);
}

}  // namespace tensor

namespace {

template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(core::kThreads) void attention_mix_backward_probabilities(const AttentionProblem problem,
                                                                                       const T* dy, const T* qkv,
                                                                                       T* dprobabilities) {
  using Tiles = core::Tile<T, kDim, kTile>;
  float* const rows = dynamic_shared<float>();  // of dy
  float* const values = rows + Tiles::kElements;
  const core::Place place = plain::place_of_queries<kTile>(problem);
  const int seen = core::seen_by(problem, place);
  const std::int64_t stride = problem.qkv_stride();
  const T* const value = qkv + problem.value_offset(place.sequence, place.kv_head);

  Tiles::load(rows, dy + problem.y_offset(place.sequence, place.head) + place.first * problem.y_stride(),
              problem.y_stride(), place.rows, problem.head_dim);
  int done = 0;
  for (; done < seen; done += kTile) {
    __syncthreads();
    Tiles::load(values, value + done * stride, stride, min(kTile, seen - done), problem.head_dim);
    __syncthreads();
    float products[Tiles::kPer][Tiles::kPer];
    Tiles::products(products, rows, values);
    Tiles::store_matrix(dprobabilities, problem, problem, place.task, place.first, done, products);
  }
  if (done < problem.sequence) Tiles::clear_rest(dprobabilities, problem, place, done);
}

template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(core::kThreads) void attention_mix_backward_values(const AttentionProblem problem,
                                                                                const T* dy, const T* probabilities,
                                                                                T* dqkv) {
  using Tiles = core::Tile<T, kDim, kTile>;
  float* const rows = dynamic_shared<float>();  // of dy
  float* const weights = rows + Tiles::kElements;
  const core::Place place = plain::place_of_keys<kTile>(problem);

  float dv[Tiles::kPer][Tiles::kWide];
  Tiles::clear(dv);
  for (int member = 0; member < problem.group(); ++member) {
    const T* const dy_head = dy + problem.y_offset(place.sequence, place.head + member);
    for (int i = problem.causal ? place.first : 0; i < problem.sequence; i += kTile) {
      __syncthreads();
      Tiles::load(rows, dy_head + i * problem.y_stride(), problem.y_stride(), min(kTile, problem.sequence - i),
                  problem.head_dim);
      Tiles::fill(weights, problem, place.task + member, i, place.first,
                  [&](std::int64_t, std::int64_t element) { return widen(probabilities[element]); });
      __syncthreads();
      Tiles::template accumulate<true>(dv, weights, rows);
    }
  }
  const std::int64_t stride = problem.qkv_stride();
  const T* const none = nullptr;
  Tiles::store_sum(dqkv + problem.value_offset(place.sequence, place.kv_head) + place.first * stride, none, stride,
                   place.rows, problem.head_dim, dv, 1.0f);
}

template <typename T>
class AttentionMixBackward final : public Kernel {
 public:
  AttentionMixBackward(const Context& context, const OpView& op)
      : problem_(op.input(2), op.attributes),
        probabilities_(choose_probabilities(problem_, context.tf32)),
        values_(choose_values(problem_, context.tf32)),
        dqkv_bytes_(op.input(2).bytes()) {
    op.require_dtype(op.input(2).dtype, {0, 1, 3, 4});
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    probabilities_.run("attention_mix_backward (probabilities)", problem_, problem_.tasks(), stream,
                       as<const T>(operands[0]), as<const T>(operands[2]), as<T>(operands[3]));
    check(cudaMemsetAsync(operands[4], 0, dqkv_bytes_, stream), "cudaMemsetAsync");  // of queries and keys
    values_.run("attention_mix_backward (values)", problem_, problem_.sequences * problem_.kv_heads, stream,
                as<const T>(operands[0]), as<const T>(operands[1]), as<T>(operands[4]));
  }

 private:
  using Part = core::Part<void(AttentionProblem, const T*, const T*, T*)>;

  static Part choose_probabilities(const AttentionProblem& problem, bool tf32) {
    if (tensor::takes<T>(problem, tf32)) {
      return tensor::part_for<T, tensor::ToMatrix>(
          problem.head_dim, [&]<int kDim>() { return tensor::attention_mix_backward_probabilities<T, kDim>; });
    }
    return core::part_for<T>(problem.head_dim, 2, 0, [&]<int kDim, int kTile>() {
      return attention_mix_backward_probabilities<T, kDim, kTile>;
    });
  }
  static Part choose_values(const AttentionProblem& problem, bool tf32) {
    if (tensor::takes<T>(problem, tf32)) {
      return tensor::part_for<T, tensor::FromMatrix>(
          problem.head_dim, [&]<int kDim>() { return tensor::attention_mix_backward_values<T, kDim>; });
    }
    return core::part_for<T>(problem.head_dim, 1, 1,
                             [&]<int kDim, int kTile>() { return attention_mix_backward_values<T, kDim, kTile>; });
  }

  AttentionProblem problem_;
  Part probabilities_, values_;
  Bytes dqkv_bytes_;
};

}  // namespace

const Factory make_attention_mix_backward = make_for_input<AttentionMixBackward, 2>;

}  // namespace l2l::device::cuda
