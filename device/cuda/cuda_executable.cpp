#include "device/cuda/cuda_executable.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/fusion/fuse.h"
#include "core/log.h"
#include "device/kernels/common/check.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// A budget that stays below zero, although graphs are given back.
constexpr int kNoneAnyMore = std::numeric_limits<int>::min() / 2;

// A graph cannot be made, though its kernels can be launched.
struct NoGraph : DeviceError {
  using DeviceError::DeviceError;
};

void check_graph(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw NoGraph(std::string(what) + ": " + describe(status));
}

// Ends a capture that failed, so that the stream can be used again.
void abandon_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  static_cast<void>(cudaGetLastError());
  const GraphHandle freed(graph);
}

constexpr int kOfGraph = 4;  // what a graph takes beside its nodes, in nodes

// A graph's part of the budget, given back at the end unless the graph was kept.
class GraphShare {
 public:
  GraphShare(GraphBudget& budget, int nodes)
      : budget_(budget), nodes_(nodes), granted_(budget.fetch_sub(nodes) >= nodes) {}
  ~GraphShare() {
    if (!kept_) budget_.fetch_add(nodes_);
  }
  GraphShare(const GraphShare&) = delete;
  GraphShare& operator=(const GraphShare&) = delete;
  bool granted() const { return granted_; }
  void keep() { kept_ = true; }

 private:
  GraphBudget& budget_;
  const int nodes_;
  const bool granted_;
  bool kept_ = false;
};

int nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  check_graph(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  return static_cast<int>(count);
}

GraphExecHandle instantiate(cudaGraph_t graph) {
  cudaGraphExec_t made = nullptr;
  check_graph(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  return GraphExecHandle(made);
}

}  // namespace

CudaExecutable::CudaExecutable(compiler::Program program, std::vector<std::unique_ptr<Kernel>> kernels,
                               std::shared_ptr<GraphBudget> graphs)
    : Executable(std::move(program)), kernels_(std::move(kernels)), budget_(std::move(graphs)) {
  require_kernels(kernels_.size());
}

CudaExecutable::~CudaExecutable() {
  if (budget_) *budget_ += (nodes_ + kOfGraph) * static_cast<int>(graphs_.size());
}

void CudaExecutable::enqueue(const Bindings& bindings, const LaunchParameters* parameters, cudaStream_t stream) const {
  // The first run loads code that the runtime and its libraries load late, which a capture might not allow.
  if (!budget_ || !loaded_.exchange(true)) return enqueue_kernels(bindings, parameters, stream);
  const Addresses addresses = addresses_of(bindings, parameters);
  cudaGraphExec_t graph = find_graph(addresses);
  if (graph == nullptr) graph = make_graph(addresses, bindings, parameters, stream);
  if (graph == nullptr) return enqueue_kernels(bindings, parameters, stream);
  cuda::check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
}

std::size_t CudaExecutable::graphs() const {
  const std::lock_guard lock(mutex_);
  return graphs_.size();
}

void CudaExecutable::enqueue_kernels(const Bindings& bindings, const LaunchParameters* parameters,
                                     cudaStream_t stream) const {
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const Arguments arguments = arguments_of(program_.launches[i], bindings);
    kernels_[i]->enqueue(arguments.operands(), arguments.workspace, parameters, stream);
  }
}

GraphHandle CudaExecutable::capture(const Bindings& bindings, const LaunchParameters* parameters,
                                    cudaStream_t stream) const {
  check_graph(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    enqueue_kernels(bindings, parameters, stream);
  } catch (...) {
    abandon_capture(stream);
    throw;
  }
  cudaGraph_t captured = nullptr;
  check_graph(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  return GraphHandle(captured);
}

CudaExecutable::Addresses CudaExecutable::addresses_of(const Bindings& bindings,
                                                       const LaunchParameters* parameters) const {
  Addresses addresses{};
  for (std::size_t i = 0; i < bindings.regions.size(); ++i) {
    if (region_bytes(i) > 0) addresses[i] = bindings.regions[i].data;
  }
  addresses.back() = parameters;
  return addresses;
}

cudaGraphExec_t CudaExecutable::find_graph(const Addresses& addresses) const {
  const std::lock_guard lock(mutex_);
  const auto found = graphs_.find(addresses);
  return found == graphs_.end() ? nullptr : found->second.get();
}

cudaGraphExec_t CudaExecutable::make_graph(const Addresses& addresses, const Bindings& bindings,
                                           const LaunchParameters* parameters, cudaStream_t stream) const {
  if (*budget_ < std::max(1, nodes_.load()) + kOfGraph) return nullptr;
  GraphExecHandle made;
  std::optional<GraphShare> share;
  try {
    const GraphHandle graph = capture(bindings, parameters, stream);
    nodes_ = nodes_of(graph.get());
    share.emplace(*budget_, nodes_ + kOfGraph);
    if (!share->granted()) return nullptr;
    made = instantiate(graph.get());
  } catch (const NoGraph& error) {
    static_cast<void>(cudaGetLastError());
    budget_->store(kNoneAnyMore);
    log(LogLevel::warning, std::string("no more CUDA graphs are made: ") + error.what() +
                               "; programs without one run kernel by kernel, with the same results");
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const auto [kept, added] = graphs_.emplace(addresses, std::move(made));
  if (added) share->keep();
  return kept->second.get();
}

std::unique_ptr<CudaExecutable> compile_for_cuda(const Context& context, const compiler::Graph& graph,
                                                 std::shared_ptr<GraphBudget> graphs, const TensorMember& tensor) {
  const compiler::Graph fused = compiler::fuse(graph);
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (std::size_t i = 0; i < fused.ops.size(); ++i) kernels.push_back(make_kernel(context, fused, i, tensor));
  if (!std::ranges::all_of(kernels, &Kernel::capturable)) graphs = nullptr;
  compiler::Program program = compiler::plan_program(
      fused, [&](const compiler::Graph&, std::size_t i) { return kernels[i]->workspace(); }, kWorkspaceAlignment);
  return std::make_unique<CudaExecutable>(std::move(program), std::move(kernels), std::move(graphs));
}

}  // namespace l2l::device::cuda
