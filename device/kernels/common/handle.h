// Owners of CUDA resources.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace l2l::device::cuda {

// What `release` returns is ignored, since a destructor can do nothing about it.
template <auto release>
struct Release {
  template <typename T>
  void operator()(T* value) const {
    static_cast<void>(release(value));
  }
};
template <typename T, auto release>
using Handle = std::unique_ptr<std::remove_pointer_t<T>, Release<release>>;

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using CublasLtHandle = Handle<cublasLtHandle_t, cublasLtDestroy>;
using DeviceMemory = Handle<void*, cudaFree>;
using PinnedMemory = Handle<void*, cudaFreeHost>;

}  // namespace l2l::device::cuda
