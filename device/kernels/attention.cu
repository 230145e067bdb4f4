// Work of one head: 4 S^2 d operations for S rows of d elements (half of it when causal), S d elements of q, k, v and y
// to and from memory; keys and values are read once per tile of queries, mostly from the L2 cache. Tensor-core tiles,
// with 128 threads each (registers and spills: docs/kernel_resources.csv), and their shared memory in KiB:
//             16 bits                      TF32
//   d <= 32:  128 queries x 64 keys, 30    128 x 64, 48
//   d <= 64:  128 x 64, 54                 128 x 32, 64
//   d <= 96:  128 x 32, 52                 64 x 32, 72
//   d <= 128: 128 x 32, 68                 64 x 32, 96
// A block may have 99 KiB on sm_86 and sm_89, and more on others.
#include "device/kernels/attention_forward_plain.cuh"
#include "device/kernels/attention_forward_tensor.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/cudnn_attention.h"

namespace l2l::device::cuda {
namespace {

// One kernel for one width of heads: its tile of queries, its threads and its shared memory.
template <typename T>
struct Forward {
  void (*kernel)(AttentionProblem, const T* qkv, const std::int32_t* documents, T* y, float* logsumexp,
                 const LaunchParameters*);
  int queries;
  unsigned int threads;
  std::size_t shared_bytes;
};

template <typename T, int kDim, int kTile>
Forward<T> plain_forward() {
  return {plain::attention_forward<T, kDim, kTile>, kTile, plain::kThreads,
          plain::forward_shared_bytes<T, kDim, kTile>()};
}

// kBlocks: 64 queries each that a thread block owns; kKeys: that arrive at a time.
template <typename T, int kDim, int kBlocks, int kKeys, bool kDropout, bool kPacked>
Forward<T> tensor_forward() {
  using Shape = tensor::ForwardShape<T, kDim, kBlocks, kKeys>;
  return {tensor::attention_forward<T, kDim, kBlocks, kKeys, kDropout, kPacked>, Shape::kQueries, tensor::kThreads,
          Shape::kSharedBytes};
}

template <typename T, bool kDropout, bool kPacked>
Forward<T> tensor_forward(int dim) {
  if constexpr (std::is_same_v<T, float>) {
    if (dim <= 32) return tensor_forward<T, 32, 2, 64, kDropout, kPacked>();
    if (dim <= 64) return tensor_forward<T, 64, 2, 32, kDropout, kPacked>();
    if (dim <= 96) return tensor_forward<T, 96, 1, 32, kDropout, kPacked>();
    return tensor_forward<T, 128, 1, 32, kDropout, kPacked>();
  } else {
    if (dim <= 32) return tensor_forward<T, 32, 2, 64, kDropout, kPacked>();
    if (dim <= 64) return tensor_forward<T, 64, 2, 64, kDropout, kPacked>();
    if (dim <= 96) return tensor_forward<T, 96, 2, 32, kDropout, kPacked>();
    return tensor_forward<T, 128, 2, 32, kDropout, kPacked>();
  }
}

template <typename T>
Forward<T> choose_forward(const AttentionProblem& problem, bool packed, bool tf32) {
  const int dim = problem.head_dim;
  if (tensor::takes<T>(problem, tf32)) {
    // One kernel serves packed rows with and without dropout: it takes half as long to compile.
    return packed                    ? tensor_forward<T, true, true>(dim)
           : problem.probability > 0 ? tensor_forward<T, true, false>(dim)
                                     : tensor_forward<T, false, false>(dim);
  }
  if (dim <= 32) return plain_forward<T, 32, 64>();
  if (dim <= 64) return plain_forward<T, 64, 64>();
  if (dim <= 128) return plain_forward<T, 128, 64>();
  if (dim <= 256) return plain_forward<T, 256, 32>();
  throw BadInput("heads of " + std::to_string(dim) + " elements, at most 256: use more heads");
}

template <typename T>
class Attention final : public Kernel {
 public:
  Attention(const Context& context, const OpView& op)
      : problem_(op.input(0), op.attributes),
        y_(op.inputs.size()),
        forward_(choose_forward<T>(problem_, y_ > 1, context.tf32)) {
    op.require_dtype(op.input(0).dtype, {y_});
    op.require_dtype(DType::f32, {y_ + 1});
    allow_shared_memory(forward_.kernel, forward_.shared_bytes);
  }

  void enqueue(Operands operands, std::byte*, const LaunchParameters* parameters, cudaStream_t stream) const override {
    const std::int64_t tiles = ceil_div(problem_.sequence, forward_.queries);
    launch("attention", forward_.kernel,
           {static_cast<unsigned int>(tiles * problem_.tasks()), forward_.threads, forward_.shared_bytes}, stream,
           problem_, as<const T>(operands[0]), y_ > 1 ? as<const std::int32_t>(operands[1]) : nullptr,
           as<T>(operands[y_]), as<float>(operands[y_ + 1]), parameters);
  }

 private:
  AttentionProblem problem_;
  std::size_t y_;  // operand; documents may come before it
  Forward<T> forward_;
};

}  // namespace

const Factory make_attention = [](const Context& context, const OpView& op) -> std::unique_ptr<Kernel> {
  const DType dtype = op.input(0).dtype;
  auto own = make_for<Attention>(dtype, context, op);
  const AttentionProblem problem(op.input(0), op.attributes);
  const bool packed = op.inputs.size() > 1;  // documents: ours skip what they do not see
  auto cudnn = packed ? nullptr : make_cudnn_attention(context, problem, dtype);
  tell_kernels(problem, dtype, "forward", cudnn ? "cuDNN" : tensor::name_of_kernels(problem, dtype, context.tf32));
  return cudnn ? std::move(cudnn) : std::move(own);
};

}  // namespace l2l::device::cuda
