// Base of devices that wrap another one and change some of what it does.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device/device.h"

namespace l2l::device {

// Forwards every call to the device it owns, whose streams, events and executables are its own. Thread-safe.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  std::string description() const override { return inner_->description(); }
  bool multiplies_fast(DType dtype) const override { return inner_->multiplies_fast(dtype); }
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
  LateBytes late_bytes() const override { return inner_->late_bytes(); }
  std::optional<Bytes> available_bytes() const override { return inner_->available_bytes(); }
  std::unique_ptr<Stream> create_stream(std::string_view name) override { return inner_->create_stream(name); }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  void record(Event& event, Stream& stream) override { inner_->record(event, stream); }
  void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) override {
    inner_->wait(stream, event, reason);
  }
  void copy(Stream& stream, BufferView destination, BufferView source) override {
    inner_->copy(stream, destination, source);
  }
  void copy_rows(Stream& stream, const RowCopy& rows) override { inner_->copy_rows(stream, rows); }
  void copy_from_peer(Stream& stream, BufferView destination, BufferView source) override {
    inner_->copy_from_peer(stream, destination, source);
  }
  void fill_zero(Stream& stream, BufferView destination) override { inner_->fill_zero(stream, destination); }
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override {
    inner_->launch(stream, executable, bindings, parameters);
  }
  void join(const TensorMember& member) override { inner_->join(member); }
  void synchronize(Event& event) override { inner_->synchronize(event); }
  void synchronize(Stream& stream) override { inner_->synchronize(stream); }
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override { return inner_->compile(graph); }
  KernelChoices kernel_choices() const override { return inner_->kernel_choices(); }
  void take_kernel_choices(const KernelChoices& choices) override { inner_->take_kernel_choices(choices); }
  void set_trace(Trace* trace) override { inner_->set_trace(trace); }
  void annotate(Stream& stream, int layer, int microbatch) override { inner_->annotate(stream, layer, microbatch); }

 protected:
  Device& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Device> inner_;
};

}  // namespace l2l::device
