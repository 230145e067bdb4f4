#include "device/paced/paced_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "device/host/host_executable.h"
#include "device/row_copy.h"

namespace l2l::device {
namespace {

// Planned for the host with one thread, so that arenas are those of a real device; never run.
class PacedExecutable final : public Executable {
 public:
  PacedExecutable(compiler::Program program, Clock::duration duration)
      : Executable(std::move(program)), duration_(duration) {}
  Clock::duration duration() const { return duration_; }

 private:
  const Clock::duration duration_;
};

// Guarded by the device's mutex.
class PacedEvent final : public Event {
 public:
  Clock::time_point at;  // of the latest record: when it happens
};

PacedEvent& paced(Event& event) { return static_cast<PacedEvent&>(event); }

Clock::duration time_of(Bytes bytes, Bytes bandwidth) {
  if (bandwidth == 0) return Clock::duration::zero();
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / static_cast<double>(bandwidth));
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

}  // namespace

// Guarded by the device's mutex.
class PacedStream final : public Stream {
 public:
  PacedStream(std::string_view name, PacedDevice& device) : name(name), device_(device) {
    const std::lock_guard lock(device_.mutex_);
    track = StreamTrack(device_.trace_, this->name);
    device_.streams_.push_back(this);
  }
  ~PacedStream() override {
    device_.synchronize(*this);
    const std::lock_guard lock(device_.mutex_);
    std::erase(device_.streams_, this);
  }
  PacedStream(const PacedStream&) = delete;
  PacedStream& operator=(const PacedStream&) = delete;

  double stalled_seconds(WaitReason reason) const override {
    const std::lock_guard lock(device_.mutex_);
    return std::chrono::duration<double>(stalled[static_cast<std::size_t>(reason)]).count();
  }

  const std::string name;
  Clock::time_point end = Clock::now();  // of all that is enqueued
  Clock::time_point arrival;             // when it last met others, who read this
  std::array<Clock::duration, static_cast<std::size_t>(WaitReason::count)> stalled{};
  StreamTrack track;
  SpanLabel label;  // of what is enqueued next

 private:
  PacedDevice& device_;
};

namespace {

PacedStream& paced(Stream& stream) { return static_cast<PacedStream&>(stream); }

}  // namespace

Clock::time_point Timeline::take(Clock::time_point ready, Clock::duration duration, Clock::time_point now) {
  if (duration <= Clock::duration::zero()) return ready;
  const auto ends_by = [](Clock::time_point time) { return [time](const Interval& i) { return i.end < time; }; };
  busy_.erase(busy_.begin(), std::find_if_not(busy_.begin(), busy_.end(), ends_by(now)));

  const auto first = std::find_if_not(busy_.begin(), busy_.end(), ends_by(ready));
  auto next = first;
  Clock::time_point free = ready;
  for (Clock::duration missing = duration;; ++next) {
    const bool last = next == busy_.end();
    if (last || next->begin - free >= missing) {
      free += missing;
      break;
    }
    missing -= std::max(next->begin - free, Clock::duration::zero());
    free = next->end;
  }
  // What lies between is full now: it becomes one interval.
  Interval whole{first != next ? std::min(first->begin, ready) : ready, free};
  if (next != busy_.end() && next->begin == free) whole.end = (next++)->end;
  if (first == next) {
    busy_.insert(first, whole);
  } else {
    *first = whole;
    busy_.erase(first + 1, next);
  }
  return free;
}

PacedDevice::PacedDevice(PaceTable table) : table_(std::move(table)) {}

std::unique_ptr<Buffer> PacedDevice::allocate(Bytes size, std::string_view purpose) {
  return map_memory(size, purpose, account_);
}

std::unique_ptr<Buffer> PacedDevice::allocate_pinned(Bytes size, std::string_view purpose) {
  return map_memory(size, purpose, nullptr);
}

std::unique_ptr<Stream> PacedDevice::create_stream(std::string_view name) {
  return std::make_unique<PacedStream>(name, *this);
}

std::unique_ptr<Event> PacedDevice::create_event() { return std::make_unique<PacedEvent>(); }

void PacedDevice::record(Event& event, Stream& stream) {
  const std::lock_guard lock(mutex_);
  paced(event).at = paced(stream).end;
}

void PacedDevice::wait(Stream& stream, Event& event, WaitReason reason) {
  const std::lock_guard lock(mutex_);
  PacedStream& waiter = paced(stream);
  const Clock::time_point done = std::max({waiter.end, paced(event).at, Clock::now()});
  waiter.stalled[static_cast<std::size_t>(reason)] += done - waiter.end;
  waiter.track.record_wait(reason, waiter.end, done);
  waiter.end = done;
}

void PacedDevice::copy(Stream& stream, BufferView destination, BufferView source) {
  require_same_size(destination, source);
  const std::lock_guard lock(mutex_);
  if (source.size > 0) std::memcpy(destination.data, source.data, source.size);
  add_copy(paced(stream), destination.data, source.data, source.size);
}

void PacedDevice::copy_rows(Stream& stream, const RowCopy& rows) {
  const std::lock_guard lock(mutex_);
  copy_here(rows);
  add_copy(paced(stream), rows.destination, rows.source, rows.bytes());
}

void PacedDevice::add_copy(PacedStream& stream, const std::byte* destination, const std::byte* source, Bytes bytes) {
  const bool from_device = account_->contains(source);
  if (from_device && account_->contains(destination)) {
    add_work(stream, nullptr, Clock::duration::zero(), "copy", stream.label);
  } else if (from_device) {
    add_work(stream, &to_host_, time_of(bytes, table_.d2h_bandwidth), "copy d2h", stream.label);
  } else {
    add_work(stream, &to_device_, time_of(bytes, table_.h2d_bandwidth), "copy h2d", stream.label);
  }
}

void PacedDevice::copy_from_peer(Stream& stream, BufferView destination, BufferView source) {
  require_same_size(destination, source);
  const std::lock_guard lock(mutex_);
  if (source.size > 0) std::memcpy(destination.data, source.data, source.size);
  add_work(paced(stream), &from_peers_, time_of(source.size, table_.peer_bandwidth), "copy from peer",
           paced(stream).label);
}

void PacedDevice::fill_zero(Stream& stream, BufferView destination) {
  const std::lock_guard lock(mutex_);
  if (destination.size > 0) std::memset(destination.data, 0, destination.size);
  add_work(paced(stream), nullptr, Clock::duration::zero(), "zero", paced(stream).label);
}

void PacedDevice::launch(Stream& stream, const Executable& executable, const Bindings& bindings,
                         const LaunchParameters& parameters) {
  const auto& mine = static_cast<const PacedExecutable&>(executable);
  mine.check(bindings);
  PacedStream& runner = paced(stream);
  if (mine.received_bytes() > 0 && member_.group) meet(runner);
  const std::lock_guard lock(mutex_);
  add_work(runner, &compute_, mine.duration(), mine.program().graph.name, label_or(runner.label, parameters));
}

void PacedDevice::meet(PacedStream& stream) {
  std::unique_lock lock(mutex_);
  stream.arrival = std::max(stream.end, Clock::now());
  Clock::time_point last = stream.arrival;
  lock.unlock();
  auto& group = static_cast<HostTensorGroup&>(*member_.group);
  group.exchange(member_.index, reinterpret_cast<const std::byte*>(&stream.arrival), [&](const auto& all) {
    for (const std::byte* other : all) last = std::max(last, *reinterpret_cast<const Clock::time_point*>(other));
  });
  lock.lock();
  stream.track.record_wait(WaitReason::order, stream.end, last);
  stream.end = last;
}

void PacedDevice::add_work(PacedStream& stream, Timeline* resource, Clock::duration duration, std::string_view name,
                           SpanLabel label) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point ready = std::max(stream.end, now);
  stream.end = resource ? resource->take(ready, duration, now) : ready + duration;
  // Work that shared its resource is shown as if it had begun as late as it could.
  stream.track.record(name, stream.end - duration, stream.end, label);
}

void PacedDevice::synchronize(Event& event) {
  std::unique_lock lock(mutex_);
  const Clock::time_point at = paced(event).at;
  lock.unlock();
  std::this_thread::sleep_until(at);
}

void PacedDevice::synchronize(Stream& stream) {
  std::unique_lock lock(mutex_);
  const Clock::time_point end = paced(stream).end;
  lock.unlock();
  std::this_thread::sleep_until(end);
}

std::unique_ptr<Executable> PacedDevice::compile(const compiler::Graph& graph) {
  const auto entry = table_.launches.find(graph.name);
  const Clock::duration duration = entry != table_.launches.end() ? entry->second : table_.other;
  return std::make_unique<PacedExecutable>(compile_for_host(graph, /*threads=*/1, member_)->program(), duration);
}

void PacedDevice::set_trace(Trace* trace) {
  const std::lock_guard lock(mutex_);
  trace_ = trace;
  for (PacedStream* stream : streams_) stream->track = StreamTrack(trace, stream->name);
}

void PacedDevice::annotate(Stream& stream, int layer, int microbatch) {
  const std::lock_guard lock(mutex_);
  paced(stream).label = {layer, microbatch};
}

}  // namespace l2l::device
