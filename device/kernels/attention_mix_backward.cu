// Work of one head: 4 S^2 d operations for S rows of d elements (half of it when causal), in two kernels: blocks that
// own queries make dprobabilities = dy v^T, blocks that own keys make dv = probabilities^T dy, in a fixed order.
#include "device/kernels/common/check.h"
#include "device/kernels/core_attention.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
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
  AttentionMixBackward(const Context&, const OpView& op)
      : problem_(op.input(2), op.attributes),
        probabilities_(core::part_for<T>(
            problem_.head_dim, 2, 0,
            [&]<int kDim, int kTile>() { return attention_mix_backward_probabilities<T, kDim, kTile>; })),
        values_(
            core::part_for<T>(problem_.head_dim, 1, 1,
                              [&]<int kDim, int kTile>() { return attention_mix_backward_values<T, kDim, kTile>; })),
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

  AttentionProblem problem_;
  Part probabilities_, values_;
  Bytes dqkv_bytes_;
};

}  // namespace

const Factory make_attention_mix_backward = make_for_input<AttentionMixBackward, 2>;

}  // namespace l2l::device::cuda
