// A device whose work takes the time that a table says and computes nothing: it judges schedules and overlap where
// cores are few and noisy, and shows what a faster device or link would do.
//
// Time is reckoned, not measured: since an event is recorded before anybody can wait for it, begin and end of every
// piece of work are known when it is enqueued. It begins when the work before it on its stream has ended, what the
// stream waits for has happened, it has been enqueued, and the link or the compute unit is free. synchronize() sleeps
// until that moment. So a late wake-up delays only what is enqueued because of it, and no delay adds to the next.
//
// Copies and fills move bytes (when they are enqueued: the order of enqueueing is one that events allow); launches
// touch no memory, so gradients are what memory holds at first: zeros.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/host/memory.h"
#include "device/paced/pace_table.h"
#include "device/paced/timeline.h"

namespace l2l::device {

class PacedStream;

// Thread-safe. Launches share the compute unit, and the copies of a direction the link, whatever their streams; what
// was enqueued first goes first, but holds nothing while it waits. Streams may not outlive the device.
class PacedDevice : public Device {
 public:
  explicit PacedDevice(PaceTable table);

  std::string description() const override { return "paced (reckons, computes nothing)"; }
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
  void fill_zero(Stream& stream, BufferView destination) override;
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override;
  void synchronize(Event& event) override;
  void synchronize(Stream& stream) override;
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override;
  void set_trace(Trace* trace) override;
  void annotate(Stream& stream, int layer, int microbatch) override;

 private:
  friend class PacedStream;

  // Books work of `duration` that is enqueued now; `server` may be nullptr. With mutex_ held.
  void book(PacedStream& stream, Timeline* server, Clock::duration duration, std::string_view name);

  const PaceTable table_;
  const std::shared_ptr<MemoryAccount> account_ = std::make_shared<MemoryAccount>();
  mutable std::mutex mutex_;  // guards what follows, and every stream and event
  Timeline to_device_, to_host_, compute_;
  std::vector<PacedStream*> streams_;
  Trace* trace_ = nullptr;
};

}  // namespace l2l::device
