// Chooses a backend: the host, or the CUDA module where there is one.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "l2l/errors.h"

namespace l2l::device {

struct DeviceSettings {
  std::string kind = "auto";  // "auto" | "host" | "cuda"
  int threads = 0;            // host: compute threads; 0: all available cores
  Bytes link_bandwidth = 0;   // host: bytes per second in each direction; 0: unthrottled
  int index = 0;              // cuda: which device, as the driver counts them
  bool graphs = true;         // cuda: programs run as CUDA graphs
  Bytes pinned_memory = 0;    // cuda: page-locked memory beyond which copies are staged; 0: no limit
  bool tf32 = false;          // cuda: products of fp32 by TF32
};

// Sets `reason`, unless it is null, to what "auto" chose and why; empty for other kinds. Throws BadInput that says why
// when `kind` is unknown or not available here.
std::unique_ptr<Device> open_device(const DeviceSettings& settings, std::string* reason = nullptr);

// This build or this machine has no part of CUDA. `brief` says what is missing, `more` where it was looked for and what
// would help.
class NoCuda : public BadInput {
 public:
  NoCuda(const std::string& brief, const std::string& more) : BadInput(brief + more), brief_(brief) {}
  const std::string& brief() const { return brief_; }

 private:
  std::string brief_;
};

// Opens the CUDA module: the file that the environment's L2L_CUDA_MODULE names, else libl2l_cuda.so beside this library
// or executable, in the build tree around it, or where it was installed. It stays open while the process lives. Throws
// NoCuda where there is no module or no driver, or BadInput in one sentence: it does not open, no such device.
std::unique_ptr<Device> open_cuda_device(const DeviceSettings& settings);

}  // namespace l2l::device
