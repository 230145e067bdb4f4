// A program with its CUDA kernels.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/handle.h"

namespace l2l::device::cuda {

inline constexpr Bytes kWorkspaceAlignment = 256;

// How many nodes (kernels, copies) the CUDA graphs that a device may still make can have; a graph itself counts as
// some. Thread-safe.
using GraphBudget = std::atomic<int>;

// Thread-safe.
class CudaExecutable final : public Executable {
 public:
  // `graphs` at nullptr: programs are enqueued kernel by kernel.
  CudaExecutable(compiler::Program program, std::vector<std::unique_ptr<Kernel>> kernels,
                 std::shared_ptr<GraphBudget> graphs);
  ~CudaExecutable() override;
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  // Enqueues one run on `stream`, of which the caller is the only user meanwhile: as a CUDA graph, which is made once
  // for the same memory and then replayed; the very first run goes kernel by kernel, as do all where no graph can be
  // made. `parameters` lie in device memory and are read when the kernels run. Throws DeviceError.
  void enqueue(const Bindings& bindings, const LaunchParameters* parameters, cudaStream_t stream) const;
  // CUDA graphs made so far.
  std::size_t graphs() const;

 private:
  // The addresses that kernels get: those of regions that the program uses, and the parameters'.
  using Addresses = std::array<const void*, static_cast<std::size_t>(compiler::Region::count) + 1>;
  struct Hash {
    std::size_t operator()(const Addresses& addresses) const {
      return std::hash<std::string_view>()({reinterpret_cast<const char*>(addresses.data()), sizeof addresses});
    }
  };

  Addresses addresses_of(const Bindings& bindings, const LaunchParameters* parameters) const;
  void enqueue_kernels(const Bindings& bindings, const LaunchParameters* parameters, cudaStream_t stream) const;
  GraphHandle capture(const Bindings& bindings, const LaunchParameters* parameters, cudaStream_t stream) const;
  // Makes and keeps one more graph; nullptr: the budget is too small, or the driver has no memory for more.
  cudaGraphExec_t make_graph(const Addresses& addresses, const Bindings& bindings, const LaunchParameters* parameters,
                             cudaStream_t stream) const;
  // nullptr: not made yet.
  cudaGraphExec_t find_graph(const Addresses& addresses) const;

  const std::vector<std::unique_ptr<Kernel>> kernels_;  // one per launch
  const std::shared_ptr<GraphBudget> budget_;
  mutable std::atomic<bool> loaded_{false};
  mutable std::atomic<int> nodes_{0};  // of each of its graphs; 0: none has been captured
  mutable std::mutex mutex_;
  mutable std::unordered_map<Addresses, GraphExecHandle, Hash> graphs_;  // guarded by mutex_
};

// For a device that is `tensor` of its group. Throws BadInput when an op has no kernel.
std::unique_ptr<CudaExecutable> compile_for_cuda(const Context& context, const compiler::Graph& graph,
                                                 std::shared_ptr<GraphBudget> graphs, const TensorMember& tensor = {});

}  // namespace l2l::device::cuda
