// The host as a device: streams are FIFOs with a thread each, launches run on one pool of compute threads.
#pragma once

#include <functional>

#include "device/device.h"
#include "device/host/host_stream.h"
#include "device/mapped_memory.h"

namespace l2l::device {

enum class CopyDirection : std::uint8_t { to_device, to_host, within_device };

// Thread-safe. Streams, events and buffers may outlive it; executables must outlive the work enqueued with them.
class HostDevice : public Device {
 public:
  // `threads` at least 1; `link_bandwidth` in bytes per second each way, 0: unthrottled.
  HostDevice(int threads, Bytes link_bandwidth);

  std::string description() const override;
  bool multiplies_fast(DType dtype) const override;
  bool uses_host_memory() const override { return true; }
  std::unique_ptr<Buffer> allocate(Bytes size, std::string_view purpose) override;
  std::unique_ptr<Buffer> allocate_pinned(Bytes size, std::string_view purpose) override;
  Bytes allocated_bytes() const override { return account_->allocated(); }
  Bytes peak_bytes() const override { return account_->peak(); }
  std::unique_ptr<Stream> create_stream(std::string_view name) override;
  std::unique_ptr<Event> create_event() override { return std::make_unique<HostEvent>(); }
  void record(Event& event, Stream& stream) override;
  void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) override;
  void copy(Stream& stream, BufferView destination, BufferView source) override;
  void copy_rows(Stream& stream, const RowCopy& rows) override;
  void copy_from_peer(Stream& stream, BufferView destination, BufferView source) override;
  void fill_zero(Stream& stream, BufferView destination) override;
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override;
  void join(const TensorMember& member) override;
  void synchronize(Event& event) override;
  void synchronize(Stream& stream) override;
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override;
  void set_trace(Trace* trace) override;
  void annotate(Stream& stream, int layer, int microbatch) override;

  CopyDirection direction(const std::byte* destination, const std::byte* source) const;

  // For tests: the stream calls `function`; what it throws is a failure of the device.
  void enqueue_call(Stream& stream, std::function<void()> function);

 private:
  void enqueue_copy(Stream& stream, const RowCopy& rows);

  const std::shared_ptr<HostShared> shared_;
  const std::shared_ptr<MemoryAccount> account_ = std::make_shared<MemoryAccount>();
};

}  // namespace l2l::device
