#include "device/kernels/product_timing.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/checked.h"
#include "device/kernels/common/check.h"

namespace l2l::device::cuda {
namespace {

constexpr Bytes kAlignment = 256;
constexpr std::size_t kRuns = 5;

EventHandle make_event() {
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, cudaEventBlockingSync), "cudaEventCreateWithFlags");
  return EventHandle(made);
}

}  // namespace

TimingMemory::TimingMemory(std::span<const Bytes> pieces, cudaStream_t stream) {
  Bytes all = 0;
  for (const Bytes piece : pieces) all = align_up(checked_add(all, piece, "memory for timing"), kAlignment);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, all);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw OutOfMemory("timing a product needs " + format_bytes(all) + " of device memory: " + describe(status));
  }
  memory_.reset(memory);
  auto* next = static_cast<std::byte*>(memory);
  for (const Bytes piece : pieces) {
    pieces_.push_back(next);
    next += align_up(piece, kAlignment);
  }
  check(cudaMemsetAsync(memory, 0, all, stream), "cudaMemsetAsync");
}

float least_milliseconds(const std::function<void()>& enqueue, cudaStream_t stream) {
  std::array<EventHandle, kRuns + 1> events;
  for (EventHandle& event : events) event = make_event();
  for (const EventHandle& event : events) {
    enqueue();
    check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
  }
  check(cudaEventSynchronize(events.back().get()), "cudaEventSynchronize");
  float least = std::numeric_limits<float>::infinity();
  for (std::size_t i = 1; i < events.size(); ++i) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events[i - 1].get(), events[i].get()), "cudaEventElapsedTime");
    least = std::min(least, milliseconds);
  }
  return least;
}

}  // namespace l2l::device::cuda
