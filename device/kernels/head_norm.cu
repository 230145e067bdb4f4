#include "device/kernels/head_norm.cuh"

#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element of qkv (the second reading of a head is from the L1 cache).
template <typename T>
__global__ void __launch_bounds__(kHeadThreads)
    head_norm(const HeadNormShape shape, const T* qkv, const T* query_gain, const T* key_gain, T* y, float* inverses) {
  const auto [row, first, head, lane] = place_of_warp(shape);
  if (row >= shape.rows) return;
  if (head >= shape.normed) {
    for (int d = lane; d < shape.size; d += 32) y[first + d] = qkv[first + d];
    return;
  }
  float squares = 0;
  for (int d = lane; d < shape.size; d += 32) {
    const float x = widen(qkv[first + d]);
    squares = fmaf(x, x, squares);
  }
  const float inverse = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(shape.size) + shape.epsilon);
  const T* const gain = head < shape.heads ? query_gain : key_gain;
  for (int d = lane; d < shape.size; d += 32) {
    y[first + d] = narrow<T>(widen(qkv[first + d]) * inverse * (shape.offset + widen(gain[d])));
  }
  if (lane == 0) inverses[row * shape.normed + head] = inverse;
}

template <typename T>
class HeadNorm final : public Kernel {
 public:
  HeadNorm(const Context&, const OpView& op) : shape_(op.input(0), op.attributes) {}

  void enqueue(Operands operands, std::byte*, const LaunchParameters*, cudaStream_t stream) const override {
    launch("head_norm", head_norm<T>, warps_of_heads(shape_), stream, shape_, as<const T>(operands[0]),
           as<const T>(operands[1]), as<const T>(operands[2]), as<T>(operands[3]), as<float>(operands[4]));
  }

 private:
  HeadNormShape shape_;
};

}  // namespace

const Factory make_head_norm = make_for_input<HeadNorm>;

}  // namespace l2l::device::cuda
