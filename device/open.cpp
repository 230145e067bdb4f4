#include "device/open.h"

#include "core/workers.h"
#include "device/cuda_backend.h"
#include "device/host/host_device.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

std::unique_ptr<Device> open_host_device(const DeviceSettings& settings) {
  if (settings.threads < 0) {
    throw BadInput("device.threads = " + std::to_string(settings.threads) + ": use 0 for all cores, or a count");
  }
  const int threads = settings.threads == 0 ? available_cores() : settings.threads;
  return std::make_unique<HostDevice>(threads, settings.link_bandwidth);
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceSettings& settings) {
  if (settings.kind == "host") return open_host_device(settings);
  if (settings.kind == "cuda") return open_cuda_device();
  if (settings.kind == "auto") return cuda_available() ? open_cuda_device() : open_host_device(settings);
  throw BadInput("device.kind = \"" + settings.kind + "\": unknown; use \"auto\", \"host\" or \"cuda\"");
}

}  // namespace l2l::device
