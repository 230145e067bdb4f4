// A CUDA device. It calls only these functions of the runtime API, which the emulation of tests/emulation provides:
//   cudaGetDeviceCount, cudaRuntimeGetVersion, cudaDriverGetVersion, cudaSetDevice, cudaDeviceGetAttribute,
//   cudaGetDeviceProperties, cudaDeviceGetPCIBusId, cudaGetErrorName, cudaGetErrorString, cudaGetLastError,
//   cudaMalloc, cudaFree, cudaMemGetInfo, cudaHostRegister, cudaHostUnregister, cudaHostAlloc, cudaFreeHost,
//   cudaStreamCreateWithFlags, cudaStreamDestroy, cudaStreamSynchronize, cudaStreamWaitEvent,
//   cudaStreamBeginCapture (thread-local mode), cudaStreamEndCapture, cudaGraphGetNodes, cudaGraphInstantiate,
//   cudaGraphLaunch, cudaGraphDestroy, cudaGraphExecDestroy, cudaEventCreateWithFlags, cudaEventDestroy,
//   cudaEventRecord, cudaEventQuery, cudaEventSynchronize, cudaEventElapsedTime, cudaMemcpyAsync, cudaMemcpy2DAsync,
//   cudaMemsetAsync, cudaLaunchKernelExC, cudaFuncSetAttribute (kernels), cublasLtCreate, cublasLtDestroy,
//   cublasLtGetVersion; NVTX is headers alone. Kernels call besides (device/kernels/matmul_plan.cpp): cublasLtMatmul,
//   cublasLtMatmulAlgoCheck, cublasLtMatmulAlgoConfigGetAttribute, cublasLtMatmulAlgoGetHeuristic, and those that
//   create, set and destroy its descriptions, layouts and preferences.
// What it calls of NCCL is in nccl_library.h.
#pragma once

#include "device/cuda/cuda_executable.h"
#include "device/cuda/device_state.h"

namespace l2l::device::cuda {

// Thread-safe. Streams, events and buffers may outlive it; executables must outlive the work enqueued with them.
class CudaDevice final : public Device {
 public:
  // Throws BadInput when there is no driver, no such device, or no code for it in this build.
  explicit CudaDevice(const Settings& settings);

  // As the CUDA runtime counts them.
  int index() const { return state_->settings.index; }
  const std::shared_ptr<DeviceState>& state() const { return state_; }
  std::string description() const override { return state_->description; }
  bool uses_host_memory() const override { return false; }
  int numa_node() const override { return state_->numa_node; }
  std::unique_ptr<Buffer> allocate(Bytes size, std::string_view purpose) override;
  std::unique_ptr<Buffer> allocate_pinned(Bytes size, std::string_view purpose) override;
  Bytes allocated_bytes() const override { return state_->device_memory->allocated(); }
  Bytes peak_bytes() const override { return state_->device_memory->peak(); }
  Bytes other_bytes() const override;
  LateBytes late_bytes() const override;
  std::optional<Bytes> available_bytes() const override;
  std::unique_ptr<Stream> create_stream(std::string_view name) override;
  std::unique_ptr<Event> create_event() override;
  void record(Event& event, Stream& stream) override;
  void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) override;
  void copy(Stream& stream, BufferView destination, BufferView source) override;
  void copy_rows(Stream& stream, const RowCopy& rows) override;
  void fill_zero(Stream& stream, BufferView destination) override;
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override;
  void join(const TensorMember& member) override;
  void synchronize(Event& event) override;
  void synchronize(Stream& stream) override;
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override;
  KernelChoices kernel_choices() const override { return state_->products->used(); }
  void take_kernel_choices(const KernelChoices& choices) override { state_->products->take(choices); }
  void set_trace(Trace* trace) override;
  void annotate(Stream& stream, int layer, int microbatch) override;

 private:
  const std::shared_ptr<DeviceState> state_;
  const std::shared_ptr<GraphBudget> graphs_;  // nullptr: no CUDA graphs
};

}  // namespace l2l::device::cuda
