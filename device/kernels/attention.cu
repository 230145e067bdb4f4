#include "device/cuda/attention_forward_plain.cuh"
#include "device/cuda/attention_forward_tensor.cuh"
#include "device/cuda/factories.h"
#include "device/cuda/launch.cuh"
#include "device/kernels/operands.h"

namespace l2l::device::cuda {
namespace {

using kernels::as;
using kernels::input;

// One kernel for one width of heads: its tile of queries, its threads and its shared memory.
template <typename T>
struct Forward {
  void (*kernel)(AttentionProblem, const T*, T*, float*, const LaunchParameters*);
  int queries;
  unsigned int threads;
  std::size_t shared_bytes;
};

template <typename T, int kDim, int kTile>
Forward<T> plain_forward() {
  return {plain::attention_forward<T, kDim, kTile>, kTile, plain::kThreads,
          plain::forward_shared_bytes<T, kDim, kTile>()};
}

template <typename T, int kDim, int kBlocks, int kKeys>
Forward<T> tensor_forward() {
  using Shape = tensor::ForwardShape<T, kDim, kBlocks, kKeys>;
  return {tensor::attention_forward<T, kDim, kBlocks, kKeys>, Shape::kQueries, tensor::kThreads, Shape::kSharedBytes};
}

template <typename T>
Forward<T> choose_forward(int head_dim) {
  if constexpr (std::is_same_v<T, float>) {
    if (head_dim <= 32) return plain_forward<T, 32, 64>();
    if (head_dim <= 64) return plain_forward<T, 64, 64>();
    if (head_dim <= 128) return plain_forward<T, 128, 64>();
  } else {
    if (head_dim <= 32) return tensor_forward<T, 32, 2, 64>();
    if (head_dim <= 64) return tensor_forward<T, 64, 2, 64>();
    if (head_dim <= 96) return tensor_forward<T, 96, 2, 32>();
    if (head_dim <= 128) return tensor_forward<T, 128, 2, 32>();
  }
  if (head_dim <= 256) return plain_forward<T, 256, 32>();
  throw BadInput("heads of " + std::to_string(head_dim) + " elements, at most 256: use more heads");
}

template <typename T>
class Attention final : public Kernel {
 public:
  Attention(const graph::Graph& graph, const graph::Op& op)
      : problem_(input(graph, op, 0), op.attributes), forward_(choose_forward<T>(problem_.head_dim)) {
    kernels::require_dtype(graph, op, input(graph, op, 0).dtype, {1});
    kernels::require_dtype(graph, op, DType::f32, {2});
    allow_shared_memory(forward_.kernel, forward_.shared_bytes);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const std::int64_t tiles = ceil_div(problem_.sequence, forward_.queries);
    launch("attention", forward_.kernel,
           {static_cast<unsigned int>(tiles * problem_.tasks()), forward_.threads, forward_.shared_bytes}, stream,
           problem_, as<const T>(operands[0]), as<T>(operands[1]), as<float>(operands[2]), parameters);
  }

 private:
  AttentionProblem problem_;
  Forward<T> forward_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(const Context&, const graph::Graph& graph, const graph::Op& op) {
  return make_for<Attention, Kernel>(input(graph, op, 0).dtype, graph, op);
}

}  // namespace l2l::device::cuda
