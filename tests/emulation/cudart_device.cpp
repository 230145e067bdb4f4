// Devices, errors and launches of the stand-in runtime.
#include <cstring>
#include <set>

#include "tests/emulation/state.h"
#include "tests/emulation/symbol_name.h"

namespace l2l::emulation {
namespace {

thread_local int current_device = 0;

constexpr std::size_t kSharedWithoutOptIn = 48 << 10, kSharedAtMost = 227 << 10;
constexpr int kMultiprocessors = 4;  // few, so that loops over a grid of that many blocks go round more than once

struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, std::size_t> bytes;  // of kernels that opted in; guarded by mutex
};

SharedLimits& shared_limits() {
  static SharedLimits& made = *new SharedLimits();
  return made;
}

struct LoadedKernels {
  std::mutex mutex;
  std::set<const void*> kernels;  // guarded by mutex
};

LoadedKernels& loaded_kernels() {
  static LoadedKernels& made = *new LoadedKernels();
  return made;
}

void load(const void* kernel) {
  const std::lock_guard lock(loaded_kernels().mutex);
  loaded_kernels().kernels.insert(kernel);
}

cudaError_t check(const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const bool empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0;
  if (empty || grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return cudaErrorInvalidConfiguration;
  if (std::size_t{block.x} * block.y * block.z > 1024) return cudaErrorInvalidConfiguration;
  const std::lock_guard lock(shared_limits().mutex);
  const auto limit = shared_limits().bytes.find(kernel);
  const std::size_t most = limit == shared_limits().bytes.end() ? kSharedWithoutOptIn : limit->second;
  return config.dynamicSmemBytes > most ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t check_device(int device) {
  return device >= 0 && device < machine().devices ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  return call([&] {
    if (const cudaError_t status = check(config, kernel)) return status;
    load(kernel);
    const Grid grid{kernel, config.gridDim, config.blockDim, config.dynamicSmemBytes};
    return enqueue(config.stream, [grid, thread = std::move(thread)] { run_grid(grid, thread, order()); });
  });
}

std::size_t kernels_loaded() {
  const std::lock_guard lock(loaded_kernels().mutex);
  return loaded_kernels().kernels.size();
}

std::vector<std::string> names_of_loaded_kernels() {
  const std::lock_guard lock(loaded_kernels().mutex);
  std::vector<std::string> names;
  for (const void* const kernel : loaded_kernels().kernels) names.push_back(symbol_name(kernel));
  return names;
}

void unload_kernels() {
  const std::lock_guard lock(loaded_kernels().mutex);
  loaded_kernels().kernels.clear();
}

}  // namespace l2l::emulation

using namespace l2l::emulation;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define L2L_NAME(name) \
  case name:           \
    return #name
    L2L_NAME(cudaSuccess);
    L2L_NAME(cudaErrorInvalidValue);
    L2L_NAME(cudaErrorMemoryAllocation);
    L2L_NAME(cudaErrorInvalidConfiguration);
    L2L_NAME(cudaErrorLaunchFailure);
    L2L_NAME(cudaErrorInsufficientDriver);
    L2L_NAME(cudaErrorNoDevice);
    L2L_NAME(cudaErrorInvalidDevice);
    L2L_NAME(cudaErrorNotReady);
    L2L_NAME(cudaErrorInvalidResourceHandle);
    L2L_NAME(cudaErrorHostMemoryAlreadyRegistered);
    L2L_NAME(cudaErrorHostMemoryNotRegistered);
    L2L_NAME(cudaErrorStreamCaptureUnsupported);
    L2L_NAME(cudaErrorStreamCaptureInvalidated);
    L2L_NAME(cudaErrorStreamCaptureUnjoined);
    L2L_NAME(cudaErrorStreamCaptureIsolation);
    L2L_NAME(cudaErrorIllegalState);
    L2L_NAME(cudaErrorIllegalAddress);
    L2L_NAME(cudaErrorCapturedEvent);
#undef L2L_NAME
    default:
      return "cudaError (another)";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? state().error.message() : cudaGetErrorName(error);
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&] {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<std::size_t>(value) > kSharedAtMost) return cudaErrorInvalidValue;
    const std::lock_guard lock(shared_limits().mutex);
    shared_limits().bytes[kernel] = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (machine().driver < CUDART_VERSION / 1000 * 1000) return report(cudaErrorInsufficientDriver);
  if (machine().devices == 0) return report(cudaErrorNoDevice);
  *count = machine().devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return call([&] {
    const cudaError_t status = check_device(device);
    if (status == cudaSuccess) current_device = device;
    return status;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (const cudaError_t status = check_device(device)) return status;
    *properties = {};
    std::strcpy(properties->name, "emulated GPU");
    properties->totalGlobalMem = machine().memory;
    properties->major = 9;
    properties->multiProcessorCount = kMultiprocessors;
    properties->warpSize = kWarp;
    properties->maxThreadsPerBlock = 1024;
    properties->sharedMemPerBlock = kSharedWithoutOptIn;
    properties->sharedMemPerBlockOptin = kSharedAtMost;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&] {
    if (const cudaError_t status = check_device(device)) return status;
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = kMultiprocessors;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = kSharedAtMost;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

// A place that no machine has: its NUMA node is unknown.
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return call([&] {
    if (const cudaError_t status = check_device(device)) return status;
    std::strncpy(text, "FFFF:FF:1F.7", static_cast<std::size_t>(bytes) - 1);
    text[bytes - 1] = 0;
    return cudaSuccess;
  });
}

}  // extern "C"
