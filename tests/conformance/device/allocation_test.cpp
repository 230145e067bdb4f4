// Enqueuing never allocates (law 4): every allocation of the calling thread is counted.
#include <cstdlib>
#include <new>

#include "tests/conformance/device/device_test.h"

namespace {
thread_local long allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
  bindings[graph::Region::input] = bindings[graph::Region::output] = memory->view();
  bindings[graph::Region::scratch] = scratch->view();
  const long before = allocations;
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
  EXPECT_EQ(allocations - before, 0);
}

// The twin: the counter sees what does allocate.
TEST(Enqueuing, TheCounterCounts) {
  HostDevice device(1, 0);
  const long before = allocations;
  const auto event = device.create_event();
  EXPECT_GT(allocations - before, 0);
}

}  // namespace
}  // namespace l2l::device
