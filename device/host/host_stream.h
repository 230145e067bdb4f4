// A FIFO of commands, with a thread that runs them. A few that take less time than waking that thread would are run by
// whoever makes them the next to run: the thread that enqueues them, or the one that completes what they waited for.
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

class HostStream;

// How far a stream has come; events and waits refer to it. Outlives its stream as long as a mark refers to it.
class Progress {
 public:
  std::mutex mutex;                      // guards this object and the stream's queue
  std::condition_variable turn_or_stop;  // the stream's thread waits for it

  // Commands done so far, counted from the stream's first. Call under `mutex`.
  std::uint64_t completed() const { return completed_; }
  // One more is done; with `mutex` held by `lock`, which it releases. Those go on that waited for it, streams on this
  // thread as far as HostStream::go_on() does.
  void advance(std::unique_lock<std::mutex>& lock, Bytes& inline_bytes);
  // Returns, `lock` (of `mutex`) held, when the first `position` commands are done.
  void wait(std::unique_lock<std::mutex>& lock, std::uint64_t position);
  // Whether the first `position` commands are done. If not, `stream`, whose turn the caller has, goes on once they are.
  // Without `mutex`, which it takes.
  bool reached_by(HostStream& stream, std::uint64_t position);

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  HostStream* take_ready();

  std::condition_variable changed_;
  std::uint64_t completed_ = 0;
  std::uint64_t awaited_ = kNobody;  // lowest position that a thread waits for
  HostStream* waiting_ = nullptr;    // first of the streams that wait
};

// "The first `position` commands of that stream." Immutable; an empty mark has always been reached.
struct Mark {
  std::shared_ptr<Progress> progress;
  std::uint64_t position = 0;

  // Returns when it has been reached.
  void wait() const;
  // As Progress::reached_by().
  bool reached_by(HostStream& stream) const { return !progress || progress->reached_by(stream, position); }
};

// One direction of a throttled link. Thread-safe. Copies of all streams take the link one after the other, each at full
// bandwidth.
class LinkClock {
 public:
  // Bytes per second; 0: unthrottled.
  explicit LinkClock(Bytes bandwidth) : bandwidth_(bandwidth) {}

  bool throttled() const { return bandwidth_ > 0; }

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

  // Returns before the command runs, unless it is the next and short: then it has run, as may have commands of other
  // streams that waited for it. So the caller holds no lock that a failure's wakers take (core/failure.h). Waits while
  // the queue is full. Never allocates.
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
  // Waking a thread takes a few microseconds, and some ten until it runs; this much is copied within them.
  static constexpr Bytes kInlineBytes = Bytes{64} << 10;

  struct Entry {
    Command command;
    SpanLabel label;
  };

  // Who runs the commands.
  enum class Turn {
    nobody,      // there are none
    somebody,    // a thread that is in go_on(), or the one that will reach the mark that the next command waits for
    own_thread,  // which has been told so
  };
  friend class Progress;

  void work();
  // Of whoever has the turn: runs commands until none is left or one has to wait, and passes the turn on. Null on the
  // stream's own thread; others run waits, zero-fills and copies that take no time of a throttled link, and of these as
  // many as `inline_bytes` has room for, from which they are taken.
  void go_on(Bytes* inline_bytes);
  static bool fits_inline(const Command& command, Bytes& budget);
  void execute(const Entry& entry, const StreamTrack& track);
  void run(const WaitCommand& wait, const StreamTrack& track);
  void run(const CopyCommand& copy, const StreamTrack& track, SpanLabel label);
  void run(const ZeroCommand& zero, const StreamTrack& track, SpanLabel label);
  void run(const LaunchCommand& launch, const StreamTrack& track, SpanLabel label);

  const std::string name_;
  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  // Guarded by progress_->mutex, but an entry being run belongs to who has the turn.
  std::vector<Entry> queue_;  // a ring
  std::uint64_t enqueued_ = 0;
  SpanLabel label_;  // of what is enqueued next
  Turn turn_ = Turn::nobody;
  bool stopped_ = false;
  StreamTrack track_;
  // Guarded by the mutex of the progress that this stream waits for, then of who lets it go on.
  HostStream* next_waiting_ = nullptr;
  std::uint64_t waits_for_ = 0;   // its position
  Clock::time_point idle_since_;  // of who has the turn
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
