#include "device/stream_track.h"

#include <iterator>

namespace l2l::device {
namespace {

constexpr std::string_view kWaitNames[] = {"wait", "wait weights", "wait stash", "wait gradients"};  // by WaitReason
static_assert(std::size(kWaitNames) == static_cast<std::size_t>(WaitReason::count));

}  // namespace

SpanLabel label_or(SpanLabel label, const LaunchParameters& parameters) {
  if (label.layer >= 0) return label;
  return {static_cast<int>(parameters.layer), static_cast<int>(parameters.microbatch)};
}

void StreamTrack::record(std::string_view name, Clock::time_point begin, Clock::time_point end, SpanLabel label) const {
  if (trace_ != nullptr) trace_->record(id_, name, begin, end, label.layer, label.microbatch);
}

void StreamTrack::record_wait(WaitReason reason, Clock::time_point begin, Clock::time_point end) const {
  if (end - begin >= std::chrono::microseconds(1)) record(kWaitNames[static_cast<std::size_t>(reason)], begin, end, {});
}

}  // namespace l2l::device
