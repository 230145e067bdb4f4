// What the conformance suite of devices needs: the devices, and memory with recognisable contents.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "device/device.h"
#include "device/host/host_device.h"
#include "device/paced/paced_device.h"
#include "device/serial/serial_device.h"
#include "tests/support/fault_device.h"

// A wait that is skipped on purpose is a data race, which that tool reports rightly.
#if defined(__SANITIZE_THREAD__)
#define L2L_SKIP_UNDER_THREAD_SANITIZER() GTEST_SKIP() << "breaks the order on purpose"
#else
#define L2L_SKIP_UNDER_THREAD_SANITIZER() static_cast<void>(0)
#endif

namespace l2l::device {

using testing::FaultDevice;
using testing::FaultPlan;

using Seconds = std::chrono::duration<double>;

inline std::unique_ptr<FaultDevice> open_fault(FaultPlan plan, int threads = 2, Bytes bandwidth = 0) {
  return std::make_unique<FaultDevice>(std::make_unique<HostDevice>(threads, bandwidth), std::move(plan));
}

struct Backend {
  std::string name;
  // `index`: among several of them.
  std::function<std::unique_ptr<Device>(int index)> open;
};

// The devices of this executable: backends_host.cpp or backends_cuda.cpp, whichever is linked.
std::vector<Backend> backends();

class DeviceTest : public ::testing::TestWithParam<Backend> {
 protected:
  const std::unique_ptr<Device> device_ = GetParam().open(/*index=*/0);
  // Whether launches compute; a test of their results skips where they do not.
  bool computes() const { return GetParam().name != "paced"; }
};

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) { return info.param.name; }

// Pinned memory filled with `byte`.
inline std::unique_ptr<Buffer> pinned(Device& device, Bytes size, unsigned char byte) {
  std::unique_ptr<Buffer> buffer = device.allocate_pinned(size, "test");
  std::fill_n(buffer->view().data, size, static_cast<std::byte>(byte));
  return buffer;
}

// Whether all of `view` (of host memory) is `byte`.
inline bool all(BufferView view, unsigned char byte) {
  return std::all_of(view.data, view.data + view.size, [=](std::byte b) { return b == static_cast<std::byte>(byte); });
}

// y = 3 x on `elements` floats, through scratch.
inline compiler::Graph triple(std::int64_t elements) {
  compiler::GraphBuilder builder("triple");
  const compiler::ValueId x = builder.bound(compiler::Region::input, "x", DType::f32, {1, elements});
  const compiler::ValueId y = builder.add(builder.add(x, x), x);
  builder.place(y, compiler::Region::output);
  return builder.finish();
}

}  // namespace l2l::device
