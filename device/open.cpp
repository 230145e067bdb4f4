#include "device/open.h"

#include "core/error_place.h"
#include "core/workers.h"
#include "device/host/host_device.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

std::unique_ptr<Device> open_host_device(const DeviceSettings& settings) {
  if (settings.threads < 0) {
    throw BadInput("device.threads = " + std::to_string(settings.threads) + ": use 0 for all cores, or a count",
                   of_key("device.threads"));
  }
  const int threads = settings.threads == 0 ? available_cores() : settings.threads;
  return std::make_unique<HostDevice>(threads, settings.link_bandwidth);
}

std::unique_ptr<Device> open_named_cuda_device(const DeviceSettings& settings) {
  try {
    return open_cuda_device(settings);
  } catch (const BadInput& error) {
    ErrorPlace place = error.place();
    if (place.key.empty()) place.key = "device.kind";
    throw BadInput(std::string("device.kind = \"cuda\": ") + error.what() + "; or use device.kind = \"host\"", place);
  }
}

// The GPU where there is one, else the host.
std::unique_ptr<Device> open_best_device(const DeviceSettings& settings, std::string& reason) {
  try {
    std::unique_ptr<Device> device = open_cuda_device(settings);
    reason = "the GPU, since its driver and the CUDA module are there";
    return device;
  } catch (const NoCuda& error) {
    reason = "the host, since " + error.brief();
  } catch (const BadInput& error) {
    reason = std::string("the host, since ") + error.what();
  } catch (const DeviceError& error) {
    reason = std::string("the host, since the GPU does not work: ") + error.what();
  }
  return open_host_device(settings);
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceSettings& settings, std::string* reason) {
  std::string why;
  std::unique_ptr<Device> device;
  if (settings.kind == "host") {
    device = open_host_device(settings);
  } else if (settings.kind == "cuda") {
    device = open_named_cuda_device(settings);
  } else if (settings.kind == "auto") {
    device = open_best_device(settings, why);
  } else {
    throw BadInput("device.kind = \"" + settings.kind + "\": unknown; use \"auto\", \"host\" or \"cuda\"",
                   of_key("device.kind"));
  }
  if (reason != nullptr) *reason = std::move(why);
  return device;
}

}  // namespace l2l::device
