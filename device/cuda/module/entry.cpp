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

Peers* join(std::span<Device* const> devices, PeerCall call, std::string& reason) {
  std::vector<int> indices;
  for (const Device* const device : devices) {
    const auto* const cuda = dynamic_cast<const CudaDevice*>(device);
    if (cuda == nullptr) {
      reason = "not all devices are GPUs: one is " + device->description();
      return nullptr;
    }
    indices.push_back(cuda->index());
  }
  return make_nccl_peers(indices, call, reason).release();
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
  static const Module module{stamp.c_str(), open_device, join};
  return &module;
}
