#include "device/cuda/device_state.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "core/error_place.h"
#include "device/kernels/common/check.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// 13000: "13.0".
std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// 130002: "13.0.2".
std::string cublas_version(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

int count_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorInsufficientDriver) {
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    if (driver == 0) throw BadInput("no NVIDIA driver on this machine");
    throw BadInput("the NVIDIA driver is too old: it knows CUDA " + cuda_version(driver) + ", this build needs " +
                   cuda_version(runtime) + "; update the driver");
  }
  if (status == cudaErrorNoDevice || count == 0) throw BadInput("the NVIDIA driver finds no GPU");
  throw BadInput("the NVIDIA driver does not answer: " + describe(status));
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// NUMA node of the device, as the kernel knows it; -1: unknown.
int numa_node_of(int device) {
  char bus_id[32] = {};  // "0000:1b:00.0"
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) != cudaSuccess) return -1;
  std::string name = bus_id;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream file("/sys/bus/pci/devices/" + name + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

void check_index(int index, int count) {
  if (index >= 0 && index < count) return;
  throw BadInput("device.index = " + std::to_string(index) + ": this machine has " + std::to_string(count) +
                     (count == 1 ? " CUDA device, index 0" : " CUDA devices, from index 0"),
                 of_key("device.index"));
}

CublasLtHandle make_cublas_lt() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  return CublasLtHandle(handle);
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties;
}

Context context_of(int device, const cudaDeviceProp& properties, cublasLtHandle_t cublas_lt) {
  Context context;
  context.device = device;
  context.compute_capability =
      10 * attribute(cudaDevAttrComputeCapabilityMajor, device) + attribute(cudaDevAttrComputeCapabilityMinor, device);
  context.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  context.shared_memory_per_block =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  context.cublas_lt = cublas_lt;
  context.attention_workspace = properties.totalGlobalMem / 32;
  return context;
}

// "H100 (sm_90, 132 SMs"
std::string name_of(const Context& context, const cudaDeviceProp& properties) {
  return std::string(properties.name) + " (sm_" + std::to_string(context.compute_capability) + ", " +
         std::to_string(context.multiprocessors) + " SMs";
}

std::string description_of(const Context& context, const cudaDeviceProp& properties) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return name_of(context, properties) + ", " + format_bytes(properties.totalGlobalMem) + ", driver " +
         cuda_version(driver) + ", cuBLASLt " + cublas_version(cublasLtGetVersion()) + (context.tf32 ? ", TF32)" : ")");
}

// What the algorithms of products are valid for.
std::string products_of(const Context& context, const cudaDeviceProp& properties) {
  return name_of(context, properties) + "), cuBLASLt " + cublas_version(cublasLtGetVersion());
}

}  // namespace

DeviceState::DeviceState(const Settings& settings)
    : settings(settings),
      deferred(settings.pinned_memory > 0),
      order_events(std::make_shared<EventPool>(settings.index, cudaEventDisableTiming | cudaEventBlockingSync)),
      timing_events(std::make_shared<EventPool>(settings.index, cudaEventBlockingSync)) {
  check_index(settings.index, count_devices());
  select();
  parameters = std::make_unique<ParameterSlots>();
  cublas_lt_ = make_cublas_lt();
  const cudaDeviceProp properties = properties_of(settings.index);
  context = context_of(settings.index, properties, cublas_lt_.get());
  context.tf32 = settings.tf32;
  products = std::make_unique<ProductChoices>(products_of(context, properties));
  context.products = products.get();
  description = description_of(context, properties);
  numa_node = numa_node_of(settings.index);
}

DeviceState::~DeviceState() { static_cast<void>(cudaSetDevice(settings.index)); }

StreamHandle DeviceState::make_stream() const {
  select();
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamHandle(made);
}

DeviceState::Memory DeviceState::memory() const {
  select();
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {free, total};
}

void DeviceState::select() const { check(cudaSetDevice(settings.index), "cudaSetDevice"); }

void DeviceState::fail(std::exception_ptr error) {
  failure.fail(error);
  if (tensor.group) tensor.group->abort(std::move(error));
}

void DeviceState::fail(const std::string& what, cudaError_t status) {
  fail(std::make_exception_ptr(DeviceError(what + ": " + describe(status))));
}

}  // namespace l2l::device::cuda
