#include "device/kernels/cudnn_library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <map>
#include <mutex>

namespace l2l::device::cuda {
namespace {

// Found once. cuDNN stays open until the process ends.
void* library() {
  static void* const opened = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  return opened;
}

template <typename Function>
Function* find(const char* name) {
  return library() ? reinterpret_cast<Function*>(dlsym(library(), name)) : nullptr;
}

// Calls `function`, or returns `missing` where the library does not have it.
template <typename Result, typename... Parameters>
Result call(Result (*function)(Parameters...), Result missing, std::type_identity_t<Parameters>... arguments) {
  return function ? function(arguments...) : missing;
}

constexpr cudnnStatus_t kMissing = CUDNN_STATUS_NOT_INITIALIZED;

}  // namespace

bool has_cudnn() { return find<decltype(cudnnCreate)>("cudnnCreate") != nullptr; }

std::mutex& cudnn_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

cudnnHandle_t cudnn_handle(int device) {
  static std::map<int, cudnnHandle_t>& handles = *new std::map<int, cudnnHandle_t>;
  const std::lock_guard lock(cudnn_mutex());
  const auto known = handles.find(device);
  if (known != handles.end()) return known->second;
  cudnnHandle_t handle = nullptr;
  if (cudaSetDevice(device) != cudaSuccess || cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) handle = nullptr;
  return handles[device] = handle;
}

}  // namespace l2l::device::cuda

using l2l::device::cuda::call;
using l2l::device::cuda::find;
using l2l::device::cuda::kMissing;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static const auto function = find<decltype(cudnnCreate)>("cudnnCreate");
  return call(function, kMissing, handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  static const auto function = find<decltype(cudnnSetStream)>("cudnnSetStream");
  return call(function, kMissing, handle, stream);
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  static const auto function = find<decltype(cudnnGetStream)>("cudnnGetStream");
  return call(function, kMissing, handle, stream);
}

std::size_t cudnnGetVersion(void) {
  static const auto function = find<decltype(cudnnGetVersion)>("cudnnGetVersion");
  return call(function, std::size_t{0});
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  static const auto function = find<decltype(cudnnGetErrorString)>("cudnnGetErrorString");
  return call(function, "libcudnn.so.9 could not be opened", status);
}

void cudnnGetLastErrorString(char* message, std::size_t size) {
  static const auto function = find<decltype(cudnnGetLastErrorString)>("cudnnGetLastErrorString");
  if (function) return function(message, size);
  if (size > 0) *message = '\0';
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  static const auto function = find<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  return call(function, kMissing, type, descriptor);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  static const auto function = find<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  return call(function, kMissing, descriptor);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  static const auto function = find<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize");
  return call(function, kMissing, descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  static const auto function = find<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  return call(function, kMissing, descriptor, name, type, count, elements);
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested, std::int64_t* count,
                                       void* elements) {
  static const auto function = find<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  return call(function, kMissing, descriptor, name, type, requested, count, elements);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  static const auto function = find<decltype(cudnnBackendExecute)>("cudnnBackendExecute");
  return call(function, kMissing, handle, plan, variant_pack);
}

// Functions that cudnn-frontend mentions, and does not call for attention.
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t*) { return kMissing; }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t) { return kMissing; }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int,
                                         const int*) {
  return kMissing;
}
cudnnStatus_t cudnnReorderFilterAndBias(cudnnHandle_t, const cudnnFilterDescriptor_t, cudnnReorderType_t, const void*,
                                        void*, int, const void*, void*) {
  return kMissing;
}

// cudnn-frontend compiles kernels of its own for some other operations; not for ours, so that no compiler is needed.
nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) {
  return NVRTC_ERROR_INTERNAL_ERROR;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, std::size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }

}  // extern "C"
