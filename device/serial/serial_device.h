// A device on which nothing overlaps: each piece of work starts when the one enqueued before it has ended, whatever its
// stream. The baseline for measuring overlap. Events allow the order of enqueueing, so nothing can hang.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "device/forwarding_device.h"

namespace l2l::device {

// Thread-safe.
class SerialDevice final : public ForwardingDevice {
 public:
  explicit SerialDevice(std::unique_ptr<Device> device)
      : ForwardingDevice(std::move(device)), last_(inner().create_event()) {}

  std::string description() const override { return inner().description() + ", one thing at a time"; }
  void copy(Stream& stream, BufferView destination, BufferView source) override {
    serialize(stream, [&] { inner().copy(stream, destination, source); });
  }
  void copy_from_peer(Stream& stream, BufferView destination, BufferView source) override {
    serialize(stream, [&] { inner().copy_from_peer(stream, destination, source); });
  }
  void copy_rows(Stream& stream, const RowCopy& rows) override {
    serialize(stream, [&] { inner().copy_rows(stream, rows); });
  }
  void fill_zero(Stream& stream, BufferView destination) override {
    serialize(stream, [&] { inner().fill_zero(stream, destination); });
  }
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override {
    serialize(stream, [&] { inner().launch(stream, executable, bindings, parameters); });
  }

 private:
  template <typename Enqueue>
  void serialize(Stream& stream, const Enqueue& enqueue) {
    const std::lock_guard lock(mutex_);
    inner().wait(stream, *last_);
    enqueue();
    inner().record(*last_, stream);
  }

  std::mutex mutex_;
  const std::unique_ptr<Event> last_;  // of the work enqueued last; guarded by mutex_
};

}  // namespace l2l::device
