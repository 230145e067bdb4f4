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
  HeadNorm(const Context&, const compiler::Graph& graph, const compiler::Op& op)
      : shape_(kernels::input(graph, op, 0), op.attributes) {}

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    launch("head_norm", head_norm<T>, warps_of_heads(shape_), stream, shape_, kernels::as<const T>(operands[0]),
           kernels::as<const T>(operands[1]), kernels::as<const T>(operands[2]), kernels::as<T>(operands[3]),
           kernels::as<float>(operands[4]));
  }

 private:
  HeadNormShape shape_;
};

}  // namespace

std::unique_ptr<Kernel> make_head_norm(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<HeadNorm, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
