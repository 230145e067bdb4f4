#include "device/cuda/stopwatch.h"

#include <utility>

namespace l2l::device::cuda {
namespace {

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// 0 where there is no time between them.
double seconds_between(cudaEvent_t first, cudaEvent_t second) {
  float ms = 0;
  return cudaEventElapsedTime(&ms, first, second) == cudaSuccess && ms > 0 ? 1e-3 * static_cast<double>(ms) : 0;
}

}  // namespace

Stopwatch::Stopwatch(std::string name, DeviceState& state) : name_(std::move(name)), state_(state), marks_(kCapacity) {}

void Stopwatch::begin(cudaStream_t stream) {
  if (!track_) return;
  Mark mark;
  mark.kind = Kind::begin;
  add(stream, std::move(mark));
}

void Stopwatch::end(cudaStream_t stream, std::string_view what, SpanLabel label) {
  // Without a trace only the last end before a wait counts.
  if (!track_ && made_ > 0 && at(made_ - 1).kind == Kind::end) {
    cudaEventRecord(at(made_ - 1).event.get(), stream);
    return;
  }
  Mark mark;
  mark.label = label;
  mark.what = track_.keep(what);
  add(stream, std::move(mark));
}

void Stopwatch::waited(cudaStream_t stream, WaitReason reason) {
  Mark mark;
  mark.kind = Kind::waited;
  mark.reason = reason;
  add(stream, std::move(mark));
}

void Stopwatch::add(cudaStream_t stream, Mark mark) {
  make_room();
  mark.event = std::move(at(made_).event);
  if (!mark.event) mark.event = state_.timing_events->take();
  cudaEventRecord(mark.event.get(), stream);
  at(made_++) = std::move(mark);
}

void Stopwatch::make_room() {
  for (int i = 0; i < 4 && made_ - read_ > kBacklog; ++i) {
    if (!read_one()) break;
  }
  if (made_ - read_ + 1 < kCapacity) return;
  cudaEventSynchronize(at(read_).event.get());
  if (!read_one()) read_ = made_;  // the device has failed
}

void Stopwatch::read() {
  while (read_ < made_ && read_one()) {
  }
}

bool Stopwatch::read_one() {
  const Mark& mark = at(read_);
  const cudaError_t status = cudaEventQuery(mark.event.get());
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // "not ready" is not an error for whoever asks next
    return false;
  }
  if (read_ > 0) account(mark, seconds_between(at(read_ - 1).event.get(), mark.event.get()));
  began_ = mark.kind == Kind::begin;
  ++read_;
  return true;
}

void Stopwatch::account(const Mark& mark, double seconds) {
  const Clock::time_point begin = time_;
  time_ += duration_of(seconds);
  if (mark.kind == Kind::waited) {
    stalled_[static_cast<std::size_t>(mark.reason)] += seconds;
    track_.record_wait(mark.reason, begin, time_);
  } else if (mark.kind == Kind::end && began_) {
    track_.record(mark.what, begin, time_, mark.label);
  }
}

void Stopwatch::set_trace(Trace* trace, const Origin& origin, cudaStream_t stream) {
  read();
  track_ = StreamTrack(trace, name_);
  add(stream, {});
  cudaEventSynchronize(at(made_ - 1).event.get());
  read();
  if (trace) time_ = origin.at + duration_of(seconds_between(origin.event.get(), at(made_ - 1).event.get()));
}

}  // namespace l2l::device::cuda
