// The CUDA runtime's functions that the project uses, on host memory and at once: every call has done its work when it
// returns.
#include "tests/emulation/runtime.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <dlfcn.h>

namespace l2l::emulation {
namespace {

constexpr std::size_t kSharedWithoutOptIn = 48 << 10, kSharedAtMost = 227 << 10;
constexpr std::size_t kAlignment = 256;

// Guards the state below.
std::mutex mutex;
std::map<const void*, std::size_t> shared_limits;  // of kernels that opted in
cudaError_t sticky = cudaSuccess;
std::string message;

std::atomic<Order>& current_order() {
  static std::atomic<Order> value = [] {
    const char* const text = std::getenv("L2L_EMULATION_ORDER");
    return text ? static_cast<Order>(std::strtoul(text, nullptr, 10)) : Order{0};
  }();
  return value;
}

std::string name_of(const void* kernel) {
  Dl_info info{};
  if (dladdr(kernel, &info) && info.dli_sname) return info.dli_sname;
  return "(unnamed)";
}

cudaError_t sticky_error() {
  const std::lock_guard lock(mutex);
  return sticky;
}

cudaError_t check(const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const bool empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0;
  if (empty || grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return cudaErrorInvalidConfiguration;
  if (std::size_t{block.x} * block.y * block.z > 1024) return cudaErrorInvalidConfiguration;
  const std::lock_guard lock(mutex);
  const auto limit = shared_limits.find(kernel);
  if (config.dynamicSmemBytes > (limit == shared_limits.end() ? kSharedWithoutOptIn : limit->second)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace

void set_order(Order order) { current_order() = order; }
Order order() { return current_order(); }

void clear_error() {
  const std::lock_guard lock(mutex);
  sticky = cudaSuccess;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  if (const cudaError_t status = check(config, kernel)) return status;
  const Grid grid{name_of(kernel), kernel, config.gridDim, config.blockDim, config.dynamicSmemBytes};
  return enqueue(config.stream, "launch", [grid, thread = std::move(thread)] { run_grid(grid, thread, order()); });
}

cudaError_t enqueue(cudaStream_t, const char*, std::function<void()> work) {
  if (const cudaError_t status = sticky_error()) return status;
  try {
    work();
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex);
    sticky = cudaErrorLaunchFailure;
    message = error.what();
  }
  return cudaSuccess;
}

}  // namespace l2l::emulation

using namespace l2l::emulation;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  const std::lock_guard lock(mutex);
  if (error == cudaErrorLaunchFailure) return message.c_str();
  return cudaGetErrorName(error);
}

cudaError_t cudaGetLastError() { return sticky_error(); }
cudaError_t cudaPeekAtLastError() { return sticky_error(); }

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<std::size_t>(value) > kSharedAtMost) return cudaErrorInvalidValue;
  const std::lock_guard lock(mutex);
  shared_limits[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *memory = rounded == 0 ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (rounded == 0) return cudaSuccess;
  if (!*memory) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, rounded);
  return sticky_error();
}

cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return sticky_error();
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (const cudaError_t status = sticky_error()) return status;
  std::memmove(destination, source, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(destination, source, bytes, kind, nullptr);
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (const cudaError_t status = sticky_error()) return status;
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  if (const cudaError_t status = sticky_error()) return status;
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  *stream = reinterpret_cast<cudaStream_t>(new int(0));
  return sticky_error();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<int*>(stream);
  return sticky_error();
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return sticky_error(); }
cudaError_t cudaDeviceSynchronize() { return sticky_error(); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 4;  // few, so that loops over a grid of that many blocks go round more than once
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedAtMost;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

}  // extern "C"
