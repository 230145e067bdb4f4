#include "device/cuda/attention_backward_plain.cuh"
#include "device/cuda/attention_backward_tensor.cuh"
#include "device/cuda/factories.h"
#include "device/cuda/launch.cuh"
#include "device/kernels/operands.h"

namespace l2l::device::cuda {
namespace {

using kernels::as;
using kernels::input;

// The two kernels for one width of heads.
template <typename T>
struct Backward {
  using Function = void(AttentionProblem, const T* dy, const T* qkv, const RowStatistics*, T* dqkv,
                        const LaunchParameters*);
  struct Part {
    Function* kernel;
    int rows;  // that a block owns: keys, or queries
    unsigned int threads;
    std::size_t shared_bytes;
  };
  Part keys, queries;
};

template <typename T, int kDim, int kTile>
Backward<T> plain_backward() {
  constexpr std::size_t kBytes = plain::BackwardTiles<T, kDim, kTile>::kBytes;
  return {{plain::attention_backward_keys<T, kDim, kTile>, kTile, plain::kThreads, kBytes},
          {plain::attention_backward_queries<T, kDim, kTile>, kTile, plain::kThreads, kBytes}};
}

// kKeyBlocks: 64 keys each that a block of the first kernel owns; kQueries: that arrive at a time; and the converse.
template <typename T, int kDim, int kKeyBlocks, int kQueries, int kQueryBlocks, int kKeys>
Backward<T> tensor_backward() {
  using KeysShape = tensor::BackwardKeysShape<T, kDim, kKeyBlocks, kQueries>;
  using QueriesShape = tensor::BackwardQueriesShape<T, kDim, kQueryBlocks, kKeys>;
  return {{tensor::attention_backward_keys<T, kDim, kKeyBlocks, kQueries>, KeysShape::kKeys, tensor::kThreads,
           KeysShape::kSharedBytes},
          {tensor::attention_backward_queries<T, kDim, kQueryBlocks, kKeys>, QueriesShape::kQueries, tensor::kThreads,
           QueriesShape::kSharedBytes}};
}

template <typename T>
Backward<T> choose_backward(int head_dim) {
  if constexpr (std::is_same_v<T, float>) {
    if (head_dim <= 32) return plain_backward<T, 32, 64>();
    if (head_dim <= 64) return plain_backward<T, 64, 32>();
    if (head_dim <= 128) return plain_backward<T, 128, 32>();
  } else {
    if (head_dim <= 32) return tensor_backward<T, 32, 2, 32, 2, 32>();
    if (head_dim <= 64) return tensor_backward<T, 64, 2, 32, 2, 32>();
    if (head_dim <= 96) return tensor_backward<T, 96, 1, 32, 2, 32>();
    if (head_dim <= 128) return tensor_backward<T, 128, 1, 32, 1, 32>();
  }
  if (head_dim <= 256) return plain_backward<T, 256, 16>();
  throw BadInput("heads of " + std::to_string(head_dim) + " elements, at most 256: use more heads");
}

template <typename T>
class AttentionBackward final : public Kernel {
 public:
  AttentionBackward(const graph::Graph& graph, const graph::Op& op)
      : problem_(input(graph, op, 1), op.attributes), backward_(choose_backward<T>(problem_.head_dim)) {
    kernels::require_dtype(graph, op, input(graph, op, 1).dtype, {0, 2, 4});
    kernels::require_dtype(graph, op, DType::f32, {3});
    allow_shared_memory(backward_.keys.kernel, backward_.keys.shared_bytes);
    allow_shared_memory(backward_.queries.kernel, backward_.queries.shared_bytes);
  }

  Bytes workspace() const override {
    return static_cast<Bytes>(problem_.rows() * problem_.heads) * sizeof(RowStatistics);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    RowStatistics* const statistics = as<RowStatistics>(workspace);
    constexpr int kItems = kStatisticsThreads / kStatisticsLanes;
    launch("attention_statistics", attention_statistics<T>,
           {ceil_div(problem_.rows() * problem_.heads, kItems), kStatisticsThreads}, stream, problem_,
           as<const T>(operands[0]), as<const T>(operands[2]), as<const float>(operands[3]), statistics);
    run("attention_backward (keys)", backward_.keys, problem_.sequences * problem_.kv_heads, operands, statistics,
        parameters, stream);
    run("attention_backward (queries)", backward_.queries, problem_.tasks(), operands, statistics, parameters, stream);
  }

 private:
  void run(const char* name, const typename Backward<T>::Part& part, std::int64_t heads,
           std::span<std::byte* const> operands, const RowStatistics* statistics, const LaunchParameters* parameters,
           cudaStream_t stream) const {
    const std::int64_t tiles = ceil_div(problem_.sequence, part.rows);
    launch(name, part.kernel, {static_cast<unsigned int>(tiles * heads), part.threads, part.shared_bytes}, stream,
           problem_, as<const T>(operands[0]), as<const T>(operands[1]), statistics, as<T>(operands[4]), parameters);
  }

  AttentionProblem problem_;
  Backward<T> backward_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention_backward(const Context&, const graph::Graph& graph, const graph::Op& op) {
  return make_for<AttentionBackward, Kernel>(input(graph, op, 1).dtype, graph, op);
}

}  // namespace l2l::device::cuda
