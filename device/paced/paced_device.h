// A device that computes nothing: its work takes the time that a table says. For judging schedules and overlap on
// machines with few or noisy cores, and for showing what a faster device or link would do.
//
// Time is computed, not measured. An event is recorded before anybody can wait for it, so begin and end of each piece
// of work are known when it is enqueued: it begins when the work before it on its stream has ended, the events that the
// stream waits for have happened, it has been enqueued, and the link or the compute unit is free. synchronize() sleeps
// until then. A late wake-up therefore delays only what is enqueued because of it; delays do not add up.
//
// Of devices over which layers are split, a program in which they exchange begins when all have enqueued it and the
// last of them is ready; its duration includes the exchanges. launch() waits for the others to enqueue it.
//
// Copies and fills move bytes at once, when they are enqueued (events allow that order). Launches touch no memory, so
// gradients are what memory holds at first: zeros.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/trace.h"
#include "device/device.h"
#include "device/host_tensor_group.h"
#include "device/mapped_memory.h"
#include "device/stream_track.h"

namespace l2l::device {

class PacedStream;

// When a shared resource (one direction of the link, the compute unit) is busy, in the past and the future.
// Thread-bound.
class Timeline {
 public:
  Timeline() { busy_.reserve(kRoom); }

  // Takes the first free time from `ready` on that adds up to `duration`, and returns its end. What was taken before
  // does not move; work taken later goes into the gaps that it leaves, in pieces if need be, as packets share a link.
  // `now`: nothing will be asked for before it any more.
  Clock::time_point take(Clock::time_point ready, Clock::duration duration, Clock::time_point now);

 private:
  static constexpr std::size_t kRoom = 4096;  // intervals; more of them allocate
  struct Interval {
    Clock::time_point begin, end;
  };
  std::vector<Interval> busy_;  // ascending, disjoint, none ends where the next one begins
};

// What the work of a paced device costs.
struct PaceTable {
  Bytes h2d_bandwidth = 0;  // bytes per second; 0: copies take no time
  Bytes d2h_bandwidth = 0;
  std::map<std::string, std::chrono::nanoseconds, std::less<>> launches;  // by name of the program's graph
  std::chrono::nanoseconds other{0};                                      // a launch of any other program
  Bytes peer_bandwidth = 0;  // into a device, from all of its peers; 0: such copies take no time
};

// Thread-safe. Launches of all streams share the compute unit, and copies of one direction share the link, in the order
// in which they were enqueued; work that waits occupies neither. Streams may not outlive the device.
class PacedDevice : public Device {
 public:
  explicit PacedDevice(PaceTable table);

  std::string description() const override { return "paced (computes nothing)"; }
  bool uses_host_memory() const override { return true; }
  std::unique_ptr<Buffer> allocate(Bytes size, std::string_view purpose) override;
  std::unique_ptr<Buffer> allocate_pinned(Bytes size, std::string_view purpose) override;
  Bytes allocated_bytes() const override { return account_->allocated(); }
  Bytes peak_bytes() const override { return account_->peak(); }
  std::unique_ptr<Stream> create_stream(std::string_view name) override;
  std::unique_ptr<Event> create_event() override;
  void record(Event& event, Stream& stream) override;
  void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) override;
  void copy(Stream& stream, BufferView destination, BufferView source) override;
  void copy_rows(Stream& stream, const RowCopy& rows) override;
  void copy_from_peer(Stream& stream, BufferView destination, BufferView source) override;
  void fill_zero(Stream& stream, BufferView destination) override;
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override;
  void synchronize(Event& event) override;
  void synchronize(Stream& stream) override;
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override;
  void join(const TensorMember& member) override { member_ = member; }
  void set_trace(Trace* trace) override;
  void annotate(Stream& stream, int layer, int microbatch) override;

 private:
  friend class PacedStream;

  // Adds a copy, whose bytes have been moved, of `bytes` between these addresses. The caller holds mutex_.
  void add_copy(PacedStream& stream, const std::byte* destination, const std::byte* source, Bytes bytes);
  // Waits until all members of the group have come here; the stream then goes on when the last one's does.
  void meet(PacedStream& stream);
  // Adds work of `duration`, enqueued now, to the stream's end and its track. `resource`: what it shares with other
  // streams; may be nullptr. The caller holds mutex_.
  void add_work(PacedStream& stream, Timeline* resource, Clock::duration duration, std::string_view name,
                SpanLabel label);

  const PaceTable table_;
  TensorMember member_;  // of the thread that compiles
  const std::shared_ptr<MemoryAccount> account_ = std::make_shared<MemoryAccount>();
  mutable std::mutex mutex_;  // guards what follows, and every stream and event
  Timeline to_device_, to_host_, from_peers_, compute_;
  std::vector<PacedStream*> streams_;
  Trace* trace_ = nullptr;
};

}  // namespace l2l::device
