// Enqueuing never allocates (law 4): every allocation of the calling thread is counted.
#include "tests/conformance/device/device_test.h"
#include "tests/support/count_allocations.h"

namespace l2l::device {
namespace {

TEST(Enqueuing, DoesNotAllocate) {
  HostDevice device(2, kGiB);
  const auto executable = device.compile(triple(16));
  const auto memory = device.allocate(64, "memory"), scratch = device.allocate(kKiB, "scratch");
  const auto host = pinned(device, 64, 0);
  const auto first = device.create_stream("first"), second = device.create_stream("second");
  const auto event = device.create_event();
  Bindings bindings;
  bindings[compiler::Region::input] = bindings[compiler::Region::output] = memory->view();
  bindings[compiler::Region::scratch] = scratch->view();
  const std::int64_t before = testing::allocations;
  for (int i = 0; i < 3000; ++i) {
    device.copy(*first, memory->view(), host->view());
    device.fill_zero(*first, memory->view());
    device.record(*event, *first);
    device.wait(*second, *event, WaitReason::weights);
    device.launch(*second, *executable, bindings, {});
    device.record(*event, *second);
    device.wait(*first, *event);
    if (i % 100 == 0) device.synchronize(*event);
  }
  device.synchronize(*first);
  EXPECT_EQ(testing::allocations - before, 0);
}

// Negative control: the counter sees what does allocate.
TEST(Enqueuing, TheCounterCounts) {
  HostDevice device(1, 0);
  const std::int64_t before = testing::allocations;
  const auto event = device.create_event();
  EXPECT_GT(testing::allocations - before, 0);
}

}  // namespace
}  // namespace l2l::device
