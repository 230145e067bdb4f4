// Work of one head: 2 S^2 d operations for S rows of d elements (half of it when causal); S^2 elements read.
#include "device/kernels/core_attention_tensor.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace tensor {

// y = probabilities v.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    attention_mix(const AttentionProblem problem, const T* probabilities, const T* qkv, T* y) {
  using Shape = FromMatrix<T, kDim>;
  using HeadRows = Rows<T, kDim>;
  constexpr int kBlocks = Shape::kBlocks, kTile = Shape::kTile, kWarpRows = Shape::kWarpRows;
  T* const shared = dynamic_shared<T>();
  const core::Place place = plain::place_of_queries<Shape::kOwn>(problem);
  const SeenRows<false> seen_rows(problem, nullptr, place.sequence);

  const HeadSource<T> source{qkv + problem.value_offset(place.sequence, place.kv_head), problem.qkv_stride(),
                             problem.sequence, problem.head_dim};
  TileStream<T, kDim, kTile> values(shared, source, seen_rows.first(place.first) / kTile * kTile,
                                    seen_rows.end(place.first + place.rows - 1), 1, 0);
  const int own = kWarpRows * warp_index(), own_first = place.first + own;  // this warp's queries
  const T* const matrix = probabilities + problem.matrix_offset(place.task, 0);
  Sums<kBlocks, kDim> sums;
  sums.clear();
  for (; values.more(); values.release()) {
    values.load_next();
    const bool any = any_seen(seen_rows, own_first, kWarpRows, values.first, kTile);
    Sums<kBlocks, kTile> weights;
    if (any) {
      load_by_query(weights, matrix, problem, own_first, values.first,
                    all_seen(seen_rows, own_first, kWarpRows, values.first, kTile));
    }
    const T* const tile = values.await();
    if (any) HeadRows::template accumulate<kBlocks, kTile>(sums, weights, tile);
  }
  HeadRows::template store<kBlocks>(
      sums, [](int, int) { return 1.0f; }, shared + own * HeadRows::kStride,
      y + problem.y_offset(place.sequence, place.head) + own_first * problem.y_stride(), problem.y_stride(),
      place.rows - own, problem.head_dim);
}

}  // namespace tensor

namespace {

template <typename T, int kDim, int kTile>
__global__ __launch_bounds__(core::kThreads) void attention_mix(const AttentionProblem problem, const T* probabilities,
                                                                const T* qkv, T* y) {
  using Tiles = core::Tile<T, kDim, kTile>;
  float* const values = dynamic_shared<float>();
  float* const weights = values + Tiles::kElements;
  const core::Place place = plain::place_of_queries<kTile>(problem);
  const int seen = core::seen_by(problem, place);
  const std::int64_t stride = problem.qkv_stride();
  const T* const value = qkv + problem.value_offset(place.sequence, place.kv_head);

  float sums[Tiles::kPer][Tiles::kWide];
  Tiles::clear(sums);
  for (int j = 0; j < seen; j += kTile) {
    __syncthreads();
    Tiles::load(values, value + j * stride, stride, min(kTile, seen - j), problem.head_dim);
    Tiles::fill(weights, problem, place.task, place.first, j,
                [&](std::int64_t, std::int64_t element) { return widen(probabilities[element]); });
    __syncthreads();
    Tiles::template accumulate<false>(sums, weights, values);
  }
  const T* const none = nullptr;
  Tiles::store_sum(y + problem.y_offset(place.sequence, place.head) + place.first * problem.y_stride(), none,
                   problem.y_stride(), place.rows, problem.head_dim, sums, 1.0f);
}

template <typename T>
class AttentionMix final : public Kernel {
 public:
  AttentionMix(const Context& context, const OpView& op)
      : problem_(op.input(1), op.attributes), part_(choose(problem_, context.tf32)) {
    op.require_dtype(op.input(1).dtype, {0, 2});
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    part_.run("attention_mix", problem_, problem_.tasks(), stream, as<const T>(operands[0]), as<const T>(operands[1]),
              as<T>(operands[2]));
  }

 private:
  using Part = core::Part<void(AttentionProblem, const T*, const T*, T*)>;

  static Part choose(const AttentionProblem& problem, bool tf32) {
    if (tensor::takes<T>(problem, tf32)) {
      return tensor::part_for<T, tensor::FromMatrix>(problem.head_dim,
                                                     [&]<int kDim>() { return tensor::attention_mix<T, kDim>; });
    }
    return core::part_for<T>(problem.head_dim, 1, 1,
                             [&]<int kDim, int kTile>() { return attention_mix<T, kDim, kTile>; });
  }

  AttentionProblem problem_;
  Part part_;
};

}  // namespace

const Factory make_attention_mix = make_for_input<AttentionMix, 1>;

}  // namespace l2l::device::cuda
