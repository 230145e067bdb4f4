// Owners of CUDA resources.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <utility>

namespace l2l::device::cuda {

// Move-only. `release` frees one; what it returns is ignored, since a destructor can do nothing about it.
template <typename T, auto release>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_ != nullptr) static_cast<void>(release(value_));
  }

  T get() const { return value_; }
  explicit operator bool() const { return value_ != nullptr; }

 private:
  T value_ = nullptr;
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using CublasLtHandle = Handle<cublasLtHandle_t, cublasLtDestroy>;
using DeviceMemory = Handle<void*, cudaFree>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

}  // namespace l2l::device::cuda
