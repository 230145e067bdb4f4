// A FIFO worker thread, and the commands that it runs.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "core/failure.h"
#include "core/trace.h"
#include "core/workers.h"
#include "device/host/host_executable.h"
#include "device/stream_track.h"

namespace l2l::device {

// How far a stream has come; events and waits refer to it. Thread-safe where it says so. Outlives its stream as long as
// a mark refers to it.
class Progress {
 public:
  std::mutex mutex;  // guards this object and the stream's queue

  // Commands done so far, counted from the stream's first. Call under `mutex`.
  std::uint64_t completed() const { return completed_; }
  void advance();
  // Returns, `lock` (of `mutex`) held, when the first `position` commands are done.
  void wait(std::unique_lock<std::mutex>& lock, std::uint64_t position);

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  std::condition_variable changed_;
  std::uint64_t completed_ = 0;
  std::uint64_t awaited_ = kNobody;  // lowest position that somebody waits for
};

// "The first `position` commands of that stream." Immutable; an empty mark has always been reached.
struct Mark {
  std::shared_ptr<Progress> progress;
  std::uint64_t position = 0;

  // Returns when it has been reached.
  void wait() const;
};

// One direction of a throttled link. Thread-safe. Copies of all streams take the link one after the other, each at full
// bandwidth.
class LinkClock {
 public:
  // Bytes per second; 0: unthrottled.
  explicit LinkClock(Bytes bandwidth) : bandwidth_(bandwidth) {}

  // From when to when the link carries something.
  struct Turn {
    Clock::time_point begin, end;
  };
  // Takes the link for `bytes` from its next free moment on.
  Turn reserve(Bytes bytes);

 private:
  const Bytes bandwidth_;
  std::mutex mutex_;
  Clock::time_point next_free_;  // guarded by mutex_
};

struct WaitCommand {
  Mark mark;
  WaitReason reason;
};

struct CopyCommand {
  RowCopy rows;
  LinkClock* link;        // nullptr: it crosses no link
  std::string_view name;  // in the trace
};

struct ZeroCommand {
  BufferView destination;
};

struct LaunchCommand {
  const HostExecutable* executable;
  Bindings bindings;
  LaunchParameters parameters;
};

// For tests (HostDevice::enqueue_call()).
struct CallCommand {
  std::function<void()> function;
};

// Of fixed size: the stream's queue holds them in place.
using Command = std::variant<std::monostate, WaitCommand, CopyCommand, ZeroCommand, LaunchCommand, CallCommand>;

class HostStream;

// What the streams of a device share.
struct HostShared {
  HostShared(int threads, Bytes link_bandwidth)
      : workers("device", threads), to_device(link_bandwidth), to_host(link_bandwidth) {}

  Failure failure;
  std::mutex compute_mutex;  // guards workers and every executable: one launch at a time
  Workers workers;
  LinkClock to_device, to_host;
  std::mutex streams_mutex;
  std::vector<HostStream*> streams;  // guarded by streams_mutex
  Trace* trace = nullptr;            // guarded by streams_mutex
  TensorMember tensor;               // of the thread that compiles
};

// Thread-safe.
class HostStream : public Stream {
 public:
  HostStream(std::string_view name, std::shared_ptr<HostShared> shared);
  ~HostStream() override;

  // Returns before the command runs; waits while the queue is full. Never allocates.
  void enqueue(Command command);
  // Everything enqueued so far.
  Mark mark();
  // While idle.
  void set_trace(Trace* trace);
  // What a trace says of the work enqueued from now on.
  void annotate(SpanLabel label);
  double stalled_seconds(WaitReason reason) const override;

 private:
  static constexpr std::size_t kCapacity = 1024;

  struct Entry {
    Command command;
    SpanLabel label;
  };

  void work();
  void wait_for_command(std::unique_lock<std::mutex>& lock, std::uint64_t next);
  void execute(const Entry& entry, const StreamTrack& track);
  void run(const WaitCommand& wait, const StreamTrack& track);
  void run(const CopyCommand& copy, const StreamTrack& track, SpanLabel label);
  void run(const ZeroCommand& zero, const StreamTrack& track, SpanLabel label);
  void run(const LaunchCommand& launch, const StreamTrack& track, SpanLabel label);

  const std::string name_;
  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  std::condition_variable enqueued_or_stopped_;
  std::vector<Entry> queue_;      // a ring; guarded by progress_->mutex, an entry being run belongs to the thread
  SpanLabel label_;               // of what is enqueued next; guarded by progress_->mutex
  std::uint64_t enqueued_ = 0;    // guarded by progress_->mutex
  bool stopped_ = false;          // guarded by progress_->mutex
  StreamTrack track_;             // guarded by progress_->mutex
  Clock::time_point idle_since_;  // of the thread
  std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(WaitReason::count)> stalled_ns_{};
  std::thread thread_;
};

// Thread-safe.
class HostEvent : public Event {
 public:
  void set(Mark mark);
  Mark mark() const;

 private:
  mutable std::mutex mutex_;
  Mark mark_;  // of the latest record; guarded by mutex_
};

}  // namespace l2l::device
