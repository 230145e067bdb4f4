// Copies between host and device, counted by what they carry. The counters are part of the API; docs/transfer.md
// (Counters) has the formulas that they equal.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "device/device.h"

namespace l2l::transfer {

enum class Traffic : std::uint8_t { weights, gradients, stash, batch, results, count };

// Thread-safe.
class Link {
 public:
  // `index`: of the device among those of the run. `members`: devices over which layers are split, which contribute
  // to the gradients as one.
  explicit Link(device::Device& device, int index = 0, int members = 1)
      : device_(device), index_(index), members_(members) {}

  device::Device& device() const { return device_; }
  int index() const { return index_; }
  // As the parameter server counts devices.
  int contributor() const { return index_ / members_; }
  // Creates a stream; of other devices than the first its name, as seen in the trace, says which.
  std::unique_ptr<device::Stream> create_stream(const std::string& name) const {
    return device_.create_stream(index_ == 0 ? name : name + " (device " + std::to_string(index_) + ")");
  }

  // Both enqueue on `stream`; the contract of Device::copy holds.
  void to_device(Traffic traffic, device::Stream& stream, device::BufferView destination, device::BufferView source) {
    h2d_[static_cast<std::size_t>(traffic)].fetch_add(source.size, std::memory_order_relaxed);
    device_.copy(stream, destination, source);
  }
  void to_host(Traffic traffic, device::Stream& stream, device::BufferView destination, device::BufferView source) {
    d2h_[static_cast<std::size_t>(traffic)].fetch_add(source.size, std::memory_order_relaxed);
    device_.copy(stream, destination, source);
  }

  void rows_to_device(Traffic traffic, device::Stream& stream, const device::RowCopy& rows) {
    h2d_[static_cast<std::size_t>(traffic)].fetch_add(rows.bytes(), std::memory_order_relaxed);
    device_.copy_rows(stream, rows);
  }
  void rows_to_host(Traffic traffic, device::Stream& stream, const device::RowCopy& rows) {
    d2h_[static_cast<std::size_t>(traffic)].fetch_add(rows.bytes(), std::memory_order_relaxed);
    device_.copy_rows(stream, rows);
  }

  // What came from the other devices of the process, of weights, of gradients and of a split layer's rows, which
  // crosses no link of the host.
  void count_gathered(Bytes bytes) { gathered_.fetch_add(bytes, std::memory_order_relaxed); }
  Bytes gathered() const { return gathered_.load(std::memory_order_relaxed); }
  void count_exchanged(Bytes bytes) { exchanged_.fetch_add(bytes, std::memory_order_relaxed); }
  Bytes exchanged() const { return exchanged_.load(std::memory_order_relaxed); }
  void count_rows(Bytes bytes) { rows_.fetch_add(bytes, std::memory_order_relaxed); }
  Bytes rows() const { return rows_.load(std::memory_order_relaxed); }

  // Waits until nothing is left to do on `stream`, so that what its work uses may be destroyed. Errors are ignored:
  // they were stored where they happened.
  void quiesce(device::Stream& stream) noexcept {
    try {
      device_.synchronize(stream);
    } catch (...) {
    }
  }

  // Bytes enqueued so far.
  Bytes h2d(Traffic traffic) const { return h2d_[static_cast<std::size_t>(traffic)].load(std::memory_order_relaxed); }
  Bytes d2h(Traffic traffic) const { return d2h_[static_cast<std::size_t>(traffic)].load(std::memory_order_relaxed); }

 private:
  using Counters = std::array<std::atomic<Bytes>, static_cast<std::size_t>(Traffic::count)>;

  device::Device& device_;
  const int index_, members_;
  Counters h2d_{};
  Counters d2h_{};
  std::atomic<Bytes> gathered_{0}, exchanged_{0}, rows_{0};
};

}  // namespace l2l::transfer
