// How a device's streams appear in a trace.
#pragma once

#include <string>
#include <string_view>

#include "core/trace.h"
#include "device/device.h"

namespace l2l::device {

// Layer and microbatch that a span belongs to; below 0: none.
struct SpanLabel {
  int layer = -1, microbatch = -1;
};

// `label`, or the layer and microbatch of the launch where it names none.
SpanLabel label_or(SpanLabel label, const LaunchParameters& parameters);

// A stream's track. Without a trace it records nothing.
class StreamTrack {
 public:
  StreamTrack() = default;
  // Adds a track to `trace`, which may be nullptr.
  StreamTrack(Trace* trace, const std::string& name) : trace_(trace), id_(trace ? trace->add_track(name) : 0) {}

  explicit operator bool() const { return trace_ != nullptr; }
  // What record() is to be given later, when `name` may be gone.
  std::string_view keep(std::string_view name) const { return trace_ ? trace_->keep(name) : std::string_view(); }
  void record(std::string_view name, Clock::time_point begin, Clock::time_point end, SpanLabel label) const;
  // The stream was idle from `begin` to the end of a wait. Less than a microsecond is not recorded.
  void record_wait(WaitReason reason, Clock::time_point begin, Clock::time_point end) const;

 private:
  Trace* trace_ = nullptr;
  int id_ = 0;
};

}  // namespace l2l::device
