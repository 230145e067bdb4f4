// A FIFO worker thread.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/failure.h"
#include "core/workers.h"
#include "device/host/command.h"
#include "device/stream_track.h"

namespace l2l::device {

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
