#include "device/host/host_stream.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/activity.h"
#include "core/fault_point.h"
#include "device/row_copy.h"

namespace l2l::device {
namespace {

void prepare_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  flush_denormals_to_zero();
  prctl(PR_SET_TIMERSLACK, 1);  // ns: a throttled link is timed by sleeping
}

}  // namespace

void Progress::advance(std::unique_lock<std::mutex>& lock, Bytes& inline_bytes) {
  ++completed_;
  const bool awaited = completed_ >= awaited_;
  if (awaited) awaited_ = kNobody;  // those who wait for more say so again
  HostStream* ready = take_ready();
  lock.unlock();
  if (awaited) changed_.notify_all();
  while (ready != nullptr) std::exchange(ready, ready->next_waiting_)->go_on(&inline_bytes);
}

// A list of those that need not wait any more.
HostStream* Progress::take_ready() {
  HostStream* ready = nullptr;
  for (HostStream** place = &waiting_; *place != nullptr;) {
    HostStream* const stream = *place;
    if (stream->waits_for_ > completed_) {
      place = &stream->next_waiting_;
      continue;
    }
    *place = std::exchange(stream->next_waiting_, ready);
    ready = stream;
  }
  return ready;
}

bool Progress::reached_by(HostStream& stream, std::uint64_t position) {
  const std::lock_guard lock(mutex);
  if (completed_ >= position) return true;
  stream.waits_for_ = position;
  stream.next_waiting_ = std::exchange(waiting_, &stream);
  return false;
}

void Progress::wait(std::unique_lock<std::mutex>& lock, std::uint64_t position) {
  if (completed_ >= position) return;
  const ActivitySpan span(Doing::rests, "the wait for a stream");
  while (completed_ < position) {
    awaited_ = std::min(awaited_, position);
    changed_.wait(lock);
  }
}

void Mark::wait() const {
  if (!progress) return;
  std::unique_lock lock(progress->mutex);
  progress->wait(lock, position);
}

LinkClock::Turn LinkClock::reserve(Bytes bytes) {
  const Clock::time_point now = Clock::now();
  if (bandwidth_ == 0) return {now, now};
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / static_cast<double>(bandwidth_));
  const std::lock_guard lock(mutex_);
  const Clock::time_point begin = std::max(now, next_free_);
  next_free_ = begin + std::chrono::duration_cast<Clock::duration>(seconds);
  return {begin, next_free_};
}

HostStream::HostStream(std::string_view name, std::shared_ptr<HostShared> shared)
    : name_(name), shared_(std::move(shared)), queue_(kCapacity), idle_since_(Clock::now()) {
  const std::lock_guard lock(shared_->streams_mutex);
  shared_->streams.reserve(shared_->streams.size() + 1);
  set_trace(shared_->trace);
  thread_ = std::thread([this] { work(); });  // the last thing here that can throw
  shared_->streams.push_back(this);
}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(progress_->mutex);
    stopped_ = true;
  }
  progress_->turn_or_stop.notify_one();
  thread_.join();
  const std::lock_guard lock(shared_->streams_mutex);
  std::erase(shared_->streams, this);
}

void HostStream::enqueue(Command command) {
  std::unique_lock lock(progress_->mutex);
  while (enqueued_ - progress_->completed() == kCapacity) progress_->wait(lock, enqueued_ - kCapacity + 1);
  queue_[enqueued_++ % kCapacity] = {std::move(command), label_};
  if (turn_ != Turn::nobody) return;
  turn_ = Turn::somebody;
  lock.unlock();
  Bytes inline_bytes = kInlineBytes;
  go_on(&inline_bytes);
}

Mark HostStream::mark() {
  const std::lock_guard lock(progress_->mutex);
  return {progress_, enqueued_};
}

void HostStream::set_trace(Trace* trace) {
  const StreamTrack track(trace, name_);
  const std::lock_guard lock(progress_->mutex);
  track_ = track;
}

void HostStream::annotate(SpanLabel label) {
  const std::lock_guard lock(progress_->mutex);
  label_ = label;
}

double HostStream::stalled_seconds(WaitReason reason) const {
  return static_cast<double>(stalled_ns_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed)) * 1e-9;
}

void HostStream::work() {
  prepare_thread(name_);
  const ThreadActivity listed(name_);
  for (;;) {
    {
      std::unique_lock lock(progress_->mutex);
      const ActivitySpan span(Doing::rests, "the wait for commands");
      progress_->turn_or_stop.wait(lock,
                                   [&] { return turn_ == Turn::own_thread || (stopped_ && turn_ == Turn::nobody); });
      if (turn_ == Turn::nobody) return;
      turn_ = Turn::somebody;
    }
    go_on(/*inline_bytes=*/nullptr);
  }
}

void HostStream::go_on(Bytes* inline_bytes) {
  const std::shared_ptr<Progress> progress = progress_;  // without the turn, the stream may be gone
  std::unique_lock lock(progress->mutex);
  while (progress->completed() < enqueued_) {
    Entry& entry = queue_[progress->completed() % kCapacity];
    if (inline_bytes != nullptr && !fits_inline(entry.command, *inline_bytes)) {
      turn_ = Turn::own_thread;
      lock.unlock();
      progress->turn_or_stop.notify_one();
      return;
    }
    const StreamTrack track = track_;
    lock.unlock();
    if (const auto* wait = std::get_if<WaitCommand>(&entry.command); wait && !wait->mark.reached_by(*this)) return;
    execute(entry, track);
    entry.command = std::monostate{};  // releases what it refers to
    lock.lock();
    Bytes of_others = kInlineBytes;
    progress->advance(lock, inline_bytes != nullptr ? *inline_bytes : of_others);
    idle_since_ = Clock::now();
    lock.lock();
  }
  turn_ = Turn::nobody;
  const bool stopped = stopped_;
  lock.unlock();
  if (stopped) progress->turn_or_stop.notify_one();
}

// Whether the command moves at most `budget` bytes, from which they are taken.
bool HostStream::fits_inline(const Command& command, Bytes& budget) {
  if (fault_point("stream.none_inline")) return false;  // for tests of what its own thread does
  constexpr Bytes kLeast = 512, kLine = 64;             // what any command, and a row, count as
  Bytes bytes = 0;
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    if (copy->link != nullptr && copy->link->throttled()) return false;
    bytes = copy->rows.rows * std::max(copy->rows.row, kLine);
  } else if (const auto* zero = std::get_if<ZeroCommand>(&command)) {
    bytes = zero->destination.size;
  } else if (!std::holds_alternative<WaitCommand>(command)) {
    return false;
  }
  if (std::max(bytes, kLeast) > budget) return false;
  budget -= std::max(bytes, kLeast);
  return true;
}

void HostStream::execute(const Entry& entry, const StreamTrack& track) {
  const auto& [command, label] = entry;
  if (const auto* wait = std::get_if<WaitCommand>(&command)) return run(*wait, track);
  if (shared_->failure.failed()) return;
  try {
    if (const auto* copy = std::get_if<CopyCommand>(&command)) run(*copy, track, label);
    if (const auto* zero = std::get_if<ZeroCommand>(&command)) run(*zero, track, label);
    if (const auto* launch = std::get_if<LaunchCommand>(&command)) run(*launch, track, label);
    if (const auto* call = std::get_if<CallCommand>(&command)) call->function();
  } catch (...) {
    const std::exception_ptr error = named_exception(name_);
    shared_->failure.fail(error);
    if (shared_->tensor.group) shared_->tensor.group->abort(error);  // the others wait for what is no longer launched
  }
}

void HostStream::run(const WaitCommand& wait, const StreamTrack& track) {
  const Clock::time_point now = Clock::now();
  const auto idle = std::chrono::duration_cast<std::chrono::nanoseconds>(now - idle_since_);
  stalled_ns_[static_cast<std::size_t>(wait.reason)].fetch_add(idle.count(), std::memory_order_relaxed);
  track.record_wait(wait.reason, idle_since_, now);
}

void HostStream::run(const CopyCommand& copy, const StreamTrack& track, SpanLabel label) {
  const ActivitySpan span(Doing::acts, "a copy", label.layer);
  const RowCopy& rows = copy.rows;
  const Clock::time_point now = Clock::now();
  const LinkClock::Turn turn = copy.link ? copy.link->reserve(rows.bytes()) : LinkClock::Turn{now, now};
  copy_here(rows);
  std::this_thread::sleep_until(turn.end);
  track.record(copy.name, turn.begin, Clock::now(), label);
}

void HostStream::run(const ZeroCommand& zero, const StreamTrack& track, SpanLabel label) {
  const Clock::time_point begin = Clock::now();
  if (zero.destination.size > 0) std::memset(zero.destination.data, 0, zero.destination.size);
  track.record("zero", begin, Clock::now(), label);
}

void HostStream::run(const LaunchCommand& launch, const StreamTrack& track, SpanLabel label) {
  const std::lock_guard lock(shared_->compute_mutex);
  const ActivitySpan span(Doing::job, "a launch", label.layer);
  const Clock::time_point begin = Clock::now();
  launch.executable->run(launch.bindings, launch.parameters, shared_->workers);
  track.record(launch.executable->program().graph.name, begin, Clock::now(), label_or(label, launch.parameters));
}

void HostEvent::set(Mark mark) {
  const std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
}

Mark HostEvent::mark() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

}  // namespace l2l::device
