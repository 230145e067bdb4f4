// Work of one head: 2 S^2 d operations for S rows of d elements (half of it when causal); S^2 elements read.
#include "device/kernels/core_attention.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
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
  AttentionMix(const Context&, const OpView& op)
      : problem_(op.input(1), op.attributes),
        part_(core::part_for<T>(problem_.head_dim, 1, 1,
                                [&]<int kDim, int kTile>() { return attention_mix<T, kDim, kTile>; })) {
    op.require_dtype(op.input(1).dtype, {0, 2});
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    part_.run("attention_mix", problem_, problem_.tasks(), stream, as<const T>(operands[0]), as<const T>(operands[1]),
              as<T>(operands[2]));
  }

 private:
  using Part = core::Part<void(AttentionProblem, const T*, const T*, T*)>;

  AttentionProblem problem_;
  Part part_;
};

}  // namespace

const Factory make_attention_mix = make_for_input<AttentionMix, 1>;

}  // namespace l2l::device::cuda
