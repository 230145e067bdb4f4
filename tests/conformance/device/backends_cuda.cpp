// A CUDA device in each of its modes. Without one the executable says why and ends with 77: skipped.
#include <cstdio>

#include "device/open.h"
#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"

namespace l2l::device {

std::vector<Backend> backends() {
  const auto cuda = [](bool graphs, Bytes pinned_memory) {
    return [=](int index) {
      return open_device({.kind = "cuda", .index = index, .graphs = graphs, .pinned_memory = pinned_memory});
    };
  };
  return {{"cuda", cuda(true, 0)},
          {"cuda_without_graphs", cuda(false, 0)},
          {"cuda_staged", cuda(true, 1)},
          {"cuda_partly_staged", cuda(true, kMiB)},
          {"serial_cuda", [=](int index) { return std::make_unique<SerialDevice>(cuda(true, 0)(index)); }}};
}

}  // namespace l2l::device

int main(int argc, char** argv) {
  try {
    std::printf("%s\n", l2l::device::open_device({.kind = "cuda"})->description().c_str());
  } catch (const l2l::Error& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
