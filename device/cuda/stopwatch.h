// Device time of a stream: how long it stood idle before waits ended, and the spans of a trace.
//
// Marks are CUDA events on the stream, between its pieces of work: after each one, after each wait and, while there is
// a trace, before each piece of work. They are read later, when the device has long passed them, a few at a time.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/device_state.h"
#include "device/stream_track.h"

namespace l2l::device::cuda {

// Guarded by the mutex of its stream. Holds a bounded number of events; when the device has passed none of them, the
// next mark waits for the first. Ignores CUDA errors: enqueueing reports them.
class Stopwatch {
 public:
  Stopwatch(std::string name, DeviceState& state);

  // Marks what was just enqueued on `stream`; begin() before a piece of work, end() after it.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream, std::string_view what, SpanLabel label);
  void waited(cudaStream_t stream, WaitReason reason);

  // Reads the marks that the device has passed.
  void read();
  // Of the marks read so far.
  double stalled_seconds(WaitReason reason) const { return stalled_[static_cast<std::size_t>(reason)]; }
  // While `stream` is idle; `origin` is that of the trace.
  void set_trace(Trace* trace, const Origin& origin, cudaStream_t stream);

 private:
  static constexpr std::uint64_t kCapacity = 1024;
  static constexpr std::uint64_t kBacklog = 64;  // marks that wait to be read before a new one reads some

  enum class Kind : std::uint8_t { begin, end, waited };
  struct Mark {
    EventHandle event;
    Kind kind = Kind::end;
    WaitReason reason = WaitReason::order;
    SpanLabel label;
    std::string_view what;
  };
  Mark& at(std::uint64_t index) { return marks_[index % kCapacity]; }
  void add(cudaStream_t stream, Mark mark);
  void make_room();
  // Reads mark `read_` unless the device has yet to pass it.
  bool read_one();
  void account(const Mark& mark, double seconds);

  const std::string name_;
  DeviceState& state_;
  std::vector<Mark> marks_;  // a ring; the mark before the next to be read stays
  std::uint64_t read_ = 0;   // marks read so far
  std::uint64_t made_ = 0;   // marks made so far
  StreamTrack track_;
  Clock::time_point time_;  // of the mark read last, if there is a trace
  bool began_ = false;      // the mark read last was a begin()
  std::array<double, static_cast<std::size_t>(WaitReason::count)> stalled_{};
};

}  // namespace l2l::device::cuda
