#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/head_norm.cuh"

namespace l2l::device::cuda {
namespace {

// Of each head, with n = x * inverse and g = dy * gain: dx = (g - n mean(g n)) * inverse. Moves 3 elements of T per
// element of qkv.
template <typename T>
__global__ void __launch_bounds__(kHeadThreads)
    head_norm_backward(const HeadNormShape shape, const T* dy, const T* qkv, const T* query_gain, const T* key_gain,
                       const float* inverses, T* dqkv) {
  const auto [row, first, head, lane] = place_of_warp(shape);
  if (row >= shape.rows) return;
  if (head >= shape.normed) {
    for (int d = lane; d < shape.size; d += 32) dqkv[first + d] = dy[first + d];
    return;
  }
  const float inverse = inverses[row * shape.normed + head];
  const T* const gain = head < shape.heads ? query_gain : key_gain;
  float products = 0;
  for (int d = lane; d < shape.size; d += 32) {
    const float g = widen(dy[first + d]) * (shape.offset + widen(gain[d]));
    products = fmaf(g, widen(qkv[first + d]) * inverse, products);
  }
  const float projection = warp_sum(products) / static_cast<float>(shape.size);
  for (int d = lane; d < shape.size; d += 32) {
    const float g = widen(dy[first + d]) * (shape.offset + widen(gain[d])), n = widen(qkv[first + d]) * inverse;
    dqkv[first + d] = narrow<T>(__fmul_rn(g - n * projection, inverse));
  }
}

// dy n of the heads that share a gain, one after the other for every row of qkv, for sums over both.
template <typename T>
struct GainGradient {
  HeadNormShape shape;
  const T *dy, *qkv;
  const float* inverses;
  int first_head, heads;

  __device__ void prepare() {}
  template <int Count>
  __device__ Floats<Count> at(std::int64_t item, std::int64_t column) const {
    const std::int64_t row = item / heads;
    const int head = first_head + static_cast<int>(item % heads);
    const std::int64_t first = row * shape.width + static_cast<std::int64_t>(head) * shape.size + column;
    Floats<Count> gradient = load_floats<Count>(dy + first);
    const Floats<Count> x = load_floats<Count>(qkv + first);
    const float inverse = inverses[row * shape.normed + head];
#pragma unroll
    for (int i = 0; i < Count; ++i) gradient[i] *= x[i] * inverse;
    return gradient;
  }
};

template <typename T>
class HeadNormBackward final : public Kernel {
 public:
  HeadNormBackward(const Context&, const OpView& op)
      : shape_(op.input(1), op.attributes),
        trained_(op.outputs.size() - 1),
        query_sums_(shape_.rows * shape_.heads, shape_.size),
        key_sums_(shape_.rows * (shape_.normed - shape_.heads), shape_.size) {}

  Bytes workspace() const override { return std::max(query_sums_.workspace(), key_sums_.workspace()); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    const T *const dy = as<const T>(operands[0]), *const qkv = as<const T>(operands[1]);
    const float* const inverses = as<const float>(operands[4]);
    launch("head_norm_backward", head_norm_backward<T>, warps_of_heads(shape_), stream, shape_, dy, qkv,
           as<const T>(operands[2]), as<const T>(operands[3]), inverses, as<T>(operands[5]));
    if (trained_ == 0) return;
    const GainGradient<T> queries{shape_, dy, qkv, inverses, 0, shape_.heads};
    query_sums_.enqueue("head_norm_backward (gain)", queries, workspace, as<float>(operands[6]), stream);
    if (trained_ == 1) return;
    const GainGradient<T> keys{shape_, dy, qkv, inverses, shape_.heads, shape_.normed - shape_.heads};
    key_sums_.enqueue("head_norm_backward (gain)", keys, workspace, as<float>(operands[7]), stream);
  }

 private:
  HeadNormShape shape_;
  std::size_t trained_;  // gains: of queries, of keys
  ColumnSums<T> query_sums_, key_sums_;
};

}  // namespace

const Factory make_head_norm_backward = make_for_input<HeadNormBackward, 1>;

}  // namespace l2l::device::cuda
