// A device on which nothing overlaps: whatever the streams, each piece of work begins when the one enqueued before it
// has ended. What overlap is measured against. (The order of enqueueing is one that events allow, so nothing can hang.)
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "device/device.h"

namespace l2l::device {

// Thread-safe. Its streams, events and executables are those of the device it wraps.
class SerialDevice : public Device {
 public:
  explicit SerialDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)), last_(inner_->create_event()) {}

  std::string description() const override { return inner_->description() + ", one thing at a time"; }
  bool uses_host_memory() const override { return inner_->uses_host_memory(); }
  int numa_node() const override { return inner_->numa_node(); }
  std::unique_ptr<Buffer> allocate(Bytes size, std::string_view purpose) override {
    return inner_->allocate(size, purpose);
  }
  std::unique_ptr<Buffer> allocate_pinned(Bytes size, std::string_view purpose) override {
    return inner_->allocate_pinned(size, purpose);
  }
  Bytes allocated_bytes() const override { return inner_->allocated_bytes(); }
  Bytes peak_bytes() const override { return inner_->peak_bytes(); }
  Bytes other_bytes() const override { return inner_->other_bytes(); }
  std::optional<Bytes> available_bytes() const override { return inner_->available_bytes(); }
  std::unique_ptr<Stream> create_stream(std::string_view name) override { return inner_->create_stream(name); }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  void record(Event& event, Stream& stream) override { inner_->record(event, stream); }
  void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) override {
    inner_->wait(stream, event, reason);
  }
  void copy(Stream& stream, BufferView destination, BufferView source) override {
    in_turn(stream, [&] { inner_->copy(stream, destination, source); });
  }
  void fill_zero(Stream& stream, BufferView destination) override {
    in_turn(stream, [&] { inner_->fill_zero(stream, destination); });
  }
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override {
    in_turn(stream, [&] { inner_->launch(stream, executable, bindings, parameters); });
  }
  void synchronize(Event& event) override { inner_->synchronize(event); }
  void synchronize(Stream& stream) override { inner_->synchronize(stream); }
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override { return inner_->compile(graph); }
  void set_trace(Trace* trace) override { inner_->set_trace(trace); }
  void annotate(Stream& stream, int layer, int microbatch) override { inner_->annotate(stream, layer, microbatch); }

 private:
  template <typename Enqueue>
  void in_turn(Stream& stream, const Enqueue& enqueue) {
    const std::lock_guard lock(mutex_);
    inner_->wait(stream, *last_);
    enqueue();
    inner_->record(*last_, stream);
  }

  const std::unique_ptr<Device> inner_;
  std::mutex mutex_;
  const std::unique_ptr<Event> last_;  // of the work enqueued last; guarded by mutex_
};

}  // namespace l2l::device
