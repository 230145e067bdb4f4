// The entry of the module that the application opens (device/cuda_module.cpp).
#include "device/cuda_module.h"

#include <cstdlib>

#include "device/cuda/cuda_device.h"
#include "device/cuda/nccl_collectives.h"

namespace l2l::device::cuda {
namespace {

Device* open_device(const Settings& settings, void (*log)(LogLevel, std::string_view)) {
  set_log_sink(log);
  return new CudaDevice(settings);
}

// None where not all of them are, as `reason` says.
std::vector<const CudaDevice*> gpus(std::span<Device* const> devices, std::string& reason) {
  std::vector<const CudaDevice*> gpus;
  for (const Device* const device : devices) {
    gpus.push_back(dynamic_cast<const CudaDevice*>(device));
    if (gpus.back() != nullptr) continue;
    reason = "not all devices are GPUs: one is " + device->description();
    return {};
  }
  return gpus;
}

Peers* join(std::span<Device* const> devices, PeerCall call, std::string& reason) {
  std::vector<int> indices;
  for (const CudaDevice* const device : gpus(devices, reason)) indices.push_back(device->index());
  return indices.empty() ? nullptr : make_nccl_peers(indices, call, reason).release();
}

TensorGroup* split(std::span<Device* const> devices, std::string& reason) {
  std::vector<std::shared_ptr<DeviceState>> states;
  for (const CudaDevice* const device : gpus(devices, reason)) states.push_back(device->state());
  return states.empty() ? nullptr : make_nccl_tensor_group(states, reason).release();
}

}  // namespace
}  // namespace l2l::device::cuda

extern "C" __attribute__((visibility("default"))) const l2l::device::cuda::Module* l2l_cuda_module() {
  using namespace l2l::device::cuda;
  // How many queues of a GPU the streams are spread over, which CUDA reads when it begins: the most there are, since
  // streams that share one wait for each other, and exchanges of two groups (device/peers.h) should not.
  static const int set = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  static_cast<void>(set);
  static const std::string stamp = module_stamp();
  static const Module module{stamp.c_str(), open_device, join, split};
  return &module;
}
