#include "device/cuda/event.h"

#include "device/kernels/common/check.h"

namespace l2l::device::cuda {

EventHandle EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      EventHandle event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  check(cudaSetDevice(device_), "cudaSetDevice");
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags");
  return EventHandle(event);
}

void EventPool::give(EventHandle event) {
  if (!event) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(event));
}

Moment::Moment(std::shared_ptr<EventPool> pool) : pool_(std::move(pool)), event_(pool_->take()) {}

Moment::~Moment() { pool_->give(std::move(event_)); }

void Moment::set_recorded() {
  if (recorded_.exchange(true, std::memory_order_release)) return;
  recorded_.notify_all();
}

std::shared_ptr<Moment> CudaEvent::begin_record(bool anew) {
  const std::lock_guard lock(mutex_);
  if (anew || !moment_) moment_ = std::make_shared<Moment>(pool_);
  return moment_;
}

std::shared_ptr<Moment> CudaEvent::moment() const {
  const std::lock_guard lock(mutex_);
  return moment_;
}

}  // namespace l2l::device::cuda
