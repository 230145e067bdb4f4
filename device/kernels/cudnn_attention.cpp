#include "device/kernels/cudnn_attention.h"

#include <cudnn_frontend.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "device/kernels/common/check.h"
#include "device/kernels/cudnn_library.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

// Names of the tensors in cuDNN's graphs.
enum Id : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kStatistics,
  kGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient
};

// Versions before (9.12) write statistics densely, whatever their strides.
constexpr std::size_t kStridedStatistics = 91200;

bool suits(const Context& context, const AttentionProblem& problem, DType dtype) {
  return context.cudnn && has_cudnn() && cudnnGetVersion() >= kStridedStatistics && dtype != DType::f32 &&
         problem.probability == 0 && problem.window == problem.sequence && problem.cap == 0 &&
         problem.head_dim % 8 == 0 && problem.head_dim <= 256 && problem.sequence % 128 == 0;
}

// Describes the op's operands to cuDNN: [sequences, heads, sequence, head_dim] by strides.
class Description {
 public:
  Description(const AttentionProblem& problem, DType dtype) : problem_(problem), graph_(std::make_shared<Graph>()) {
    const auto type = dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
    graph_->set_io_data_type(type).set_intermediate_data_type(fe::DataType_t::FLOAT);
    graph_->set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Tensor qkv(Id id, int heads) const { return graph_->tensor(like(id, heads, problem_.qkv_stride())); }
  Tensor y(Id id) const { return graph_->tensor(like(id, problem_.heads, problem_.y_stride())); }
  // Of the op's own order, or of cuDNN's.
  Tensor_attributes statistics(bool transposed) const {
    const std::int64_t heads = problem_.heads, rows = problem_.sequence;
    const std::int64_t of_head = transposed ? rows : 1, of_row = transposed ? 1 : heads;
    return Tensor_attributes()
        .set_uid(kStatistics)
        .set_dim({problem_.sequences, heads, rows, 1})
        .set_stride({heads * rows, of_head, of_row, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }
  void becomes(const Tensor& result, Id id, int heads, std::int64_t stride) const {
    const Tensor_attributes wanted = like(id, heads, stride);
    result->set_output(true).set_uid(id).set_dim(wanted.get_dim()).set_stride(wanted.get_stride());
  }
  const std::shared_ptr<Graph>& graph() const { return graph_; }

 private:
  Tensor_attributes like(Id id, int heads, std::int64_t stride) const {
    return Tensor_attributes()
        .set_uid(id)
        .set_dim({problem_.sequences, heads, problem_.sequence, problem_.head_dim})
        .set_stride({problem_.sequence * stride, problem_.head_dim, stride, 1});
  }

  const AttentionProblem& problem_;
  std::shared_ptr<Graph> graph_;
};

// A graph with the plan that cuDNN's heuristic puts first.
struct Plan {
  std::shared_ptr<Graph> graph;
  int device = 0;
  Bytes workspace = 0;

  // False when cuDNN has no plan.
  bool build(const std::shared_ptr<Graph>& description, const Context& context) {
    const cudnnHandle_t handle = cudnn_handle(context.device);
    if (!handle) return false;
    graph = description;
    device = context.device;
    const std::lock_guard lock(cudnn_mutex());
    if (graph->build(handle, {fe::HeurMode_t::A}).is_bad()) return false;
    std::int64_t bytes = 0;
    if (graph->get_workspace_size(bytes).is_bad()) return false;
    workspace = static_cast<Bytes>(bytes);
    return true;
  }

  void enqueue(const char* name, std::unordered_map<std::int64_t, void*> tensors, std::byte* memory,
               cudaStream_t stream) const {
    const cudnnHandle_t handle = cudnn_handle(device);
    const std::lock_guard lock(cudnn_mutex());
    if (cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS) throw DeviceError("cudnnSetStream");
    auto status = graph->execute(handle, tensors, memory);
    if (status.is_bad()) throw DeviceError(std::string(name) + " by cuDNN: " + status.get_message());
  }
};

// Bytes from the start of qkv (or dqkv) to the first head of keys, and of values.
struct Parts {
  explicit Parts(const AttentionProblem& problem)
      : key(problem.key_offset(0, 0) * 2), value(problem.value_offset(0, 0) * 2) {}
  std::int64_t key, value;
};

class Forward final : public Kernel {
 public:
  explicit Forward(const AttentionProblem& problem) : parts_(problem) {}

  bool build(const Context& context, const AttentionProblem& problem, DType dtype) {
    const Description description(problem, dtype);
    auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    attributes.set_attn_scale(problem.scale).set_causal_mask(problem.causal);
    const auto [y, statistics] =
        description.graph()->sdpa(description.qkv(kQuery, problem.heads), description.qkv(kKey, problem.kv_heads),
                                  description.qkv(kValue, problem.kv_heads), attributes);
    description.becomes(y, kOutput, problem.heads, problem.y_stride());
    const Tensor_attributes own = description.statistics(false);
    statistics->set_output(true).set_uid(kStatistics).set_dim(own.get_dim()).set_stride(own.get_stride());
    statistics->set_data_type(fe::DataType_t::FLOAT);
    return plan_.build(description.graph(), context);
  }

  Bytes workspace() const override { return plan_.workspace; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    std::byte* const qkv = operands[0];
    plan_.enqueue("attention",
                  {{kQuery, qkv},
                   {kKey, qkv + parts_.key},
                   {kValue, qkv + parts_.value},
                   {kOutput, operands[1]},
                   {kStatistics, operands[2]}},
                  workspace, stream);
  }

 private:
  Parts parts_;
  Plan plan_;
};

class Backward final : public Kernel {
 public:
  explicit Backward(const AttentionProblem& problem)
      : problem_(problem),
        parts_(problem),
        statistics_bytes_(align_up(static_cast<Bytes>(problem.rows() * problem.heads) * sizeof(float), 256)) {}

  bool build(const Context& context, DType dtype) {
    const Description description(problem_, dtype);
    auto attributes = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    attributes.set_attn_scale(problem_.scale).set_causal_mask(problem_.causal).set_deterministic_algorithm(true);
    const auto [dq, dk, dv] = description.graph()->sdpa_backward(
        description.qkv(kQuery, problem_.heads), description.qkv(kKey, problem_.kv_heads),
        description.qkv(kValue, problem_.kv_heads), description.y(kOutput), description.y(kGradient),
        description.graph()->tensor(description.statistics(true)), attributes);
    description.becomes(dq, kQueryGradient, problem_.heads, problem_.qkv_stride());
    description.becomes(dk, kKeyGradient, problem_.kv_heads, problem_.qkv_stride());
    description.becomes(dv, kValueGradient, problem_.kv_heads, problem_.qkv_stride());
    return plan_.build(description.graph(), context) && plan_.workspace <= context.attention_workspace;
  }

  Bytes workspace() const override { return statistics_bytes_ + plan_.workspace; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    float* const statistics = reinterpret_cast<float*>(workspace);
    transpose_logsumexp(problem_, reinterpret_cast<const float*>(operands[3]), statistics, stream);
    std::byte* const qkv = operands[1];
    std::byte* const dqkv = operands[4];
    plan_.enqueue("attention_backward",
                  {{kQuery, qkv},
                   {kKey, qkv + parts_.key},
                   {kValue, qkv + parts_.value},
                   {kOutput, operands[2]},
                   {kGradient, operands[0]},
                   {kStatistics, statistics},
                   {kQueryGradient, dqkv},
                   {kKeyGradient, dqkv + parts_.key},
                   {kValueGradient, dqkv + parts_.value}},
                  workspace + statistics_bytes_, stream);
  }

 private:
  AttentionProblem problem_;
  Parts parts_;
  Bytes statistics_bytes_;
  Plan plan_;
};

}  // namespace

std::unique_ptr<Kernel> make_cudnn_attention(const Context& context, const AttentionProblem& problem, DType dtype) {
  if (!suits(context, problem, dtype)) return nullptr;
  auto kernel = std::make_unique<Forward>(problem);
  if (!kernel->build(context, problem, dtype)) return nullptr;
  return kernel;
}

std::unique_ptr<Kernel> make_cudnn_attention_backward(const Context& context, const AttentionProblem& problem,
                                                      DType dtype) {
  if (!suits(context, problem, dtype)) return nullptr;
  auto kernel = std::make_unique<Backward>(problem);
  if (!kernel->build(context, dtype)) return nullptr;
  return kernel;
}

}  // namespace l2l::device::cuda
