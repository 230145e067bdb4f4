#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 4 bytes in and one element of T out per element, also with the sum of squares.
struct Same {
  __device__ float operator()(float x) const { return x; }
};

template <typename T>
using Convert = OneInput<Same>::OfStream<float, T>;

constexpr int kSquaresThreads = 256;
// By the shape alone, and few enough for one block to add their sums.
constexpr unsigned int kMostBlocks = 2048;

// The sum over the block's threads, in thread 0: halves are added.
__device__ double block_sum(double value) {
  __shared__ double sums[kSquaresThreads];
  sums[threadIdx.x] = value;
  for (int half = kSquaresThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

// Rounds Count elements and returns the sum of their squares.
template <int Count, typename T>
__device__ double convert_squared(const float* x, T* y) {
  const Floats<Count> values = load_floats<Count>(x);
  store_floats(y, values);
  double sum = 0;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const double value = static_cast<double>(rounded<T>(values[i]));
    sum += value * value;
  }
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(kSquaresThreads)
    convert_squares(const float* x, T* y, std::int64_t elements, double* block_sums) {
  const std::int64_t groups = elements / kPack<T>, tail = elements - groups * kPack<T>;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kSquaresThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kSquaresThreads;
  double sum = 0;
  for (std::int64_t group = thread; group < groups; group += threads) {
    sum += convert_squared<kPack<T>>(x + group * kPack<T>, y + group * kPack<T>);
  }
  if (thread < tail) sum += convert_squared<1>(x + groups * kPack<T> + thread, y + groups * kPack<T> + thread);
  sum = block_sum(sum);
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSquaresThreads)
    add_sums(const double* block_sums, unsigned int blocks, double* squares) {
  double sum = 0;
  for (unsigned int block = threadIdx.x; block < blocks; block += kSquaresThreads) sum += block_sums[block];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *squares = sum;
}

template <typename T>
class ConvertWithSquares final : public Kernel {
 public:
  ConvertWithSquares(const Context&, const OpView& op)
      : elements_(op.output(0).shape.elements()),
        blocks_(std::min(kMostBlocks, ceil_div(std::max<std::int64_t>(elements_, 1), kSquaresThreads * kPack<T>))) {}

  Bytes workspace() const override { return blocks_ * sizeof(double); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    double* const sums = as<double>(workspace);
    launch("convert_squares", convert_squares<T>, {dim3(blocks_), dim3(kSquaresThreads)}, stream,
           as<const float>(operands[0]), as<T>(operands[1]), elements_, sums);
    launch("add_sums", add_sums, {dim3(1), dim3(kSquaresThreads)}, stream, sums, blocks_, as<double>(operands[2]));
  }

 private:
  std::int64_t elements_;
  unsigned int blocks_;
};

}  // namespace

const Factory make_convert = [](const Context& context, const OpView& op) {
  return (op.outputs.size() > 1 ? make_for_output<ConvertWithSquares> : make_for_output<Convert>)(context, op);
};

}  // namespace l2l::device::cuda
