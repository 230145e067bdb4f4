// A device that also records gradients and streams of a step, for comparison.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"

namespace l2l::testing {

// What the last step computed.
struct Seen {
  std::map<std::uint32_t, std::vector<float>> gradients;  // by layer, summed over microbatches
  std::vector<std::byte> embedded, rebuilt;  // streams of microbatch 0: as the embedding wrote them, and as rebuilt
};

class WatchingDevice final : public device::ForwardingDevice {
 public:
  WatchingDevice(std::unique_ptr<device::Device> device, Seen& seen)
      : ForwardingDevice(std::move(device)), seen_(seen) {}
  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override {
    ForwardingDevice::launch(stream, executable, bindings, parameters);
    synchronize(stream);
    const std::string& name = executable.program().graph.name;
    if (name == "drain") {
      const device::BufferView view = bindings[compiler::Region::gradients];
      std::vector<float>& gradients = seen_.gradients[parameters.layer];
      gradients.resize(view.size / sizeof(float));
      std::memcpy(gradients.data(), view.data, view.size);
    }
    if (parameters.microbatch == 0 && name == "embedding") copy(bindings[compiler::Region::output], seen_.embedded);
    if (parameters.microbatch == 0 && name == "embedding backward")
      copy(bindings[compiler::Region::input], seen_.rebuilt);
  }

 private:
  static void copy(device::BufferView view, std::vector<std::byte>& bytes) {
    bytes.assign(view.data, view.data + view.size);
  }

  Seen& seen_;
};

}  // namespace l2l::testing
