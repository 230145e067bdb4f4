// Work of one head: 14 S^2 d operations for S rows of d elements (half of it when causal): 8 for dk and dv, 6 for dq;
// q, k, v, dy, y read and dq, dk, dv written once, tiles of the other side mostly from the L2 cache. Tensor-core tiles
// with 128 threads each (registers and spills: docs/kernel_resources.csv), and their shared memory in KiB:
//             dk, dv: keys x queries                      dq: queries x keys    TF32: either, dk and dv; dq
//   d <= 32:  128 x 32, 30.5                              128 x 32, 30          128 x 32, 48.5; 48
//   d <= 64:  128 x 32, 54.5; with dropout 64 x 64, 55    128 x 32, 54          64 x 32, 64.5; 64
//   d <= 96:  64 x 32, 52.5                               128 x 32, 78          64 x 32, 96.5; 96
//   d <= 128: 64 x 32, 68.5                               64 x 32, 68           64 x 16, 96.25; 96
// A block may have 99 KiB on sm_86 and sm_89, and more on others.
#include "device/kernels/attention_backward_plain.cuh"
#include "device/kernels/attention_backward_tensor.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/cudnn_attention.h"

namespace l2l::device::cuda {
namespace {

// The two kernels for one width of heads.
template <typename T>
struct Backward {
  using Function = void(AttentionProblem, const T* dy, const T* qkv, const RowStatistics*,
                        const std::int32_t* documents, T* dqkv, const LaunchParameters*);
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

// kKeyBlocks: 64 keys each that a thread block of the first kernel owns; kQueries: that arrive at a time; and the
// converse.
template <typename T, int kDim, int kKeyBlocks, int kQueries, int kQueryBlocks, int kKeys, bool kDropout, bool kPacked>
Backward<T> tensor_backward() {
  using KeysShape = tensor::BackwardKeysShape<T, kDim, kKeyBlocks, kQueries>;
  using QueriesShape = tensor::BackwardQueriesShape<T, kDim, kQueryBlocks, kKeys>;
  return {{tensor::attention_backward_keys<T, kDim, kKeyBlocks, kQueries, kDropout, kPacked>, KeysShape::kKeys,
           tensor::kThreads, KeysShape::kSharedBytes},
          {tensor::attention_backward_queries<T, kDim, kQueryBlocks, kKeys, kDropout, kPacked>, QueriesShape::kQueries,
           tensor::kThreads, QueriesShape::kSharedBytes}};
}

// Two blocks of keys and dropout do not fit the registers where heads are wider than 32.
template <typename T, bool kDropout, bool kPacked>
Backward<T> tensor_backward(int dim) {
  if constexpr (std::is_same_v<T, float>) {
    if (dim <= 32) return tensor_backward<T, 32, 2, 32, 2, 32, kDropout, kPacked>();
    if (dim <= 64) return tensor_backward<T, 64, 1, 32, 1, 32, kDropout, kPacked>();
    if (dim <= 96) return tensor_backward<T, 96, 1, 32, 1, 32, kDropout, kPacked>();
    return tensor_backward<T, 128, 1, 16, 1, 16, kDropout, kPacked>();
  } else {
    if (dim <= 32) return tensor_backward<T, 32, 2, 32, 2, 32, kDropout, kPacked>();
    if (dim <= 64) return tensor_backward < T, 64, kDropout ? 1 : 2, kDropout ? 64 : 32, 2, 32, kDropout, kPacked > ();
    if (dim <= 96) return tensor_backward<T, 96, 1, 32, 2, 32, kDropout, kPacked>();
    return tensor_backward<T, 128, 1, 32, 1, 32, kDropout, kPacked>();
  }
}

template <typename T>
Backward<T> choose_backward(const AttentionProblem& problem, bool packed, bool tf32) {
  const int dim = problem.head_dim;
  if (tensor::takes<T>(problem, tf32)) {
    if (packed) return tensor_backward<T, true, true>(dim);  // with and without dropout
    return problem.probability > 0 ? tensor_backward<T, true, false>(dim) : tensor_backward<T, false, false>(dim);
  }
  if (dim <= 32) return plain_backward<T, 32, 64>();
  if (dim <= 64) return plain_backward<T, 64, 32>();
  if (dim <= 128) return plain_backward<T, 128, 32>();
  if (dim <= 256) return plain_backward<T, 256, 16>();
  throw BadInput("heads of " + std::to_string(dim) + " elements, at most 256: use more heads");
}

template <typename T>
class AttentionBackward final : public Kernel {
 public:
  AttentionBackward(const Context& context, const OpView& op)
      : problem_(op.input(1), op.attributes),
        backward_(choose_backward<T>(problem_, op.inputs.size() > 4, context.tf32)) {
    op.require_dtype(op.input(1).dtype, {0, 2, op.inputs.size()});
    op.require_dtype(DType::f32, {3});
    allow_shared_memory(backward_.keys.kernel, backward_.keys.shared_bytes);
    allow_shared_memory(backward_.queries.kernel, backward_.queries.shared_bytes);
  }

  Bytes workspace() const override {
    return static_cast<Bytes>(problem_.rows() * problem_.heads) * sizeof(RowStatistics);
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
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
  void run(const char* name, const typename Backward<T>::Part& part, std::int64_t heads, Operands operands,
           const RowStatistics* statistics, const LaunchParameters* parameters, cudaStream_t stream) const {
    const std::int64_t tiles = ceil_div(problem_.sequence, part.rows);
    launch(name, part.kernel, {static_cast<unsigned int>(tiles * heads), part.threads, part.shared_bytes}, stream,
           problem_, as<const T>(operands[0]), as<const T>(operands[1]), statistics,
           operands.size() > 5 ? as<const std::int32_t>(operands[4]) : nullptr, as<T>(operands.back()), parameters);
  }

  AttentionProblem problem_;
  Backward<T> backward_;
};

}  // namespace

const Factory make_attention_backward = [](const Context& context, const OpView& op) -> std::unique_ptr<Kernel> {
  const DType dtype = op.input(1).dtype;
  auto own = make_for<AttentionBackward>(dtype, context, op);
  const AttentionProblem problem(op.input(1), op.attributes);
  const bool packed = op.inputs.size() > 4;
  auto cudnn = packed ? nullptr : make_cudnn_attention_backward(context, problem, dtype);
  tell_kernels(problem, dtype, "backward", cudnn ? "cuDNN" : tensor::name_of_kernels(problem, dtype, context.tf32));
  return cudnn ? std::move(cudnn) : std::move(own);
};

void transpose_logsumexp(const AttentionProblem& problem, const float* logsumexp, float* transposed,
                         cudaStream_t stream) {
  launch("transpose_logsumexp", head_major_logsumexp,
         {ceil_div(problem.rows() * problem.heads, kStatisticsThreads), kStatisticsThreads}, stream, problem, logsumexp,
         transposed);
}

}  // namespace l2l::device::cuda
