// CUDA memory and streams for tests, and what differs between a GPU and its emulation.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "device/kernels/common/check.h"
#include "device/kernels/common/cuda_kernel.h"

namespace l2l::test {

// Repetitions on a GPU (L2L_OP_REPEATS of the environment, at least 2), orders of threads in the emulation.
std::vector<int> cuda_variants();
void choose_cuda_variant(int variant);

// What run_kernel makes kernels with; tests may change its settings for a while. Thread-bound.
device::cuda::Context& cuda_context();

// Device memory at an address `remainder` behind a multiple of 256, all bits set until written. Copies wait.
class DeviceMemory {
 public:
  DeviceMemory(Bytes bytes, Bytes remainder) : remainder_(remainder) {
    device::cuda::check(cudaMalloc(&memory_, bytes + remainder), "cudaMalloc");
    device::cuda::check(cudaMemset(memory_, 0xFF, bytes + remainder), "cudaMemset");
  }
  ~DeviceMemory() { cudaFree(memory_); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), remainder_(other.remainder_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_) + remainder_; }
  void write(Bytes offset, std::span<const std::byte> from) {
    device::cuda::check(cudaMemcpy(data() + offset, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  void read(Bytes offset, std::span<std::byte> to) const {
    device::cuda::check(cudaMemcpy(to.data(), data() + offset, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

 private:
  void* memory_ = nullptr;
  Bytes remainder_;
};

class CudaStream {
 public:
  CudaStream() {
    device::cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~CudaStream() { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace l2l::test
