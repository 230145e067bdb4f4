#include "device/device.h"

#include <cassert>
#include <iterator>

namespace l2l::device {
namespace {

constexpr std::string_view kWaitNames[] = {"wait", "wait weights", "wait stash", "wait gradients"};  // by WaitReason
static_assert(std::size(kWaitNames) == static_cast<std::size_t>(WaitReason::count));

}  // namespace

void record_wait(Trace& trace, int track, WaitReason reason, Clock::time_point begin, Clock::time_point end) {
  if (end - begin < std::chrono::microseconds(1)) return;
  trace.record(track, kWaitNames[static_cast<std::size_t>(reason)], begin, end, -1, -1);
}

BufferView BufferView::slice(Bytes offset, Bytes bytes) const {
  assert(offset <= size && bytes <= size - offset);
  return {data + offset, bytes};
}

}  // namespace l2l::device
