// Points in streams.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "device/kernels/common/handle.h"

namespace l2l::device::cuda {

// Reuses CUDA events of one kind and one device: only that device's streams may record them. Thread-safe.
class EventPool {
 public:
  // The device as the CUDA runtime counts them; `flags` of cudaEventCreateWithFlags.
  EventPool(int device, unsigned int flags) : device_(device), flags_(flags) {}
  // May make the device that of the calling thread. Throws DeviceError.
  EventHandle take();
  void give(EventHandle event);

 private:
  const int device_;
  const unsigned int flags_;
  std::mutex mutex_;
  std::vector<EventHandle> free_;  // guarded by mutex_
};

// One record() of an event. Thread-safe. On deferred streams (deferred.h) the record reaches the CUDA stream after the
// call; each one then has a Moment of its own, so that waits refer to the record that they saw.
class Moment {
 public:
  explicit Moment(std::shared_ptr<EventPool> pool);
  ~Moment();
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  cudaEvent_t event() const { return event_.get(); }
  // Call when the record is in its CUDA stream.
  void set_recorded();
  // Blocks until it is.
  void wait_until_recorded() const { recorded_.wait(false, std::memory_order_acquire); }

 private:
  const std::shared_ptr<EventPool> pool_;
  EventHandle event_;
  std::atomic<bool> recorded_{false};
};

// Thread-safe.
class CudaEvent final : public Event {
 public:
  explicit CudaEvent(std::shared_ptr<EventPool> pool) : pool_(std::move(pool)) {}
  // The moment of a record() that begins now; `anew`: with a CUDA event of its own. Throws DeviceError.
  std::shared_ptr<Moment> begin_record(bool anew);
  // Of the latest record; nullptr: there was none.
  std::shared_ptr<Moment> moment() const;

 private:
  const std::shared_ptr<EventPool> pool_;
  mutable std::mutex mutex_;
  std::shared_ptr<Moment> moment_;  // guarded by mutex_
};

}  // namespace l2l::device::cuda
