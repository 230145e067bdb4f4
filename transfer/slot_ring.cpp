#include "transfer/slot_ring.h"

#include "core/activity.h"

namespace l2l::transfer {

using device::Stream;

SlotRing::SlotRing(device::Device& device, std::vector<device::BufferView> slots, int consumers,
                   device::WaitReason reason, Failure& failure)
    : device_(device),
      consumers_(consumers),
      reason_(reason),
      failure_(failure),
      registration_(failure.on_failure([this] {
        { const std::lock_guard lock(mutex_); }
        changed_.notify_all();
      })) {
  free_.reserve(slots.size());
  filled_.reserve(slots.size());
  for (const device::BufferView& slot : slots) {
    State state{slot, device.create_event(), {}, 0};
    for (int i = 0; i < consumers; ++i) state.released.push_back(device.create_event());
    free_.push_back(static_cast<Slot>(state_.size()));
    state_.push_back(std::move(state));
  }
}

bool SlotRing::has_free() {
  const std::lock_guard lock(mutex_);
  return !free_.empty();
}

SlotRing::Slot SlotRing::acquire(Stream& producer, device::WaitReason reason) {
  const Slot slot = pop_when_there(free_);
  for (const auto& event : state_[static_cast<std::size_t>(slot)].released) device_.wait(producer, *event, reason);
  return slot;
}

void SlotRing::filled(Slot slot, Stream& producer) {
  device_.record(*state_[static_cast<std::size_t>(slot)].ready, producer);
  {
    const std::lock_guard lock(mutex_);
    state_[static_cast<std::size_t>(slot)].in_use = consumers_;
    filled_.push_back(slot);
  }
  changed_.notify_all();
}

SlotRing::Slot SlotRing::take(Stream& consumer) {
  const Slot slot = pop_when_there(filled_);
  if (slot == kClosed) return slot;
  device_.wait(consumer, *state_[static_cast<std::size_t>(slot)].ready, reason_);
  return slot;
}

void SlotRing::release(Slot slot, Stream& consumer, int which) {
  State& state = state_[static_cast<std::size_t>(slot)];
  device_.record(*state.released[static_cast<std::size_t>(which)], consumer);
  {
    const std::lock_guard lock(mutex_);
    if (--state.in_use > 0) return;
    free_.push_back(slot);
  }
  changed_.notify_all();
}

void SlotRing::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

SlotRing::Slot SlotRing::pop_when_there(std::vector<Slot>& queue) {
  std::unique_lock lock(mutex_);
  const ActivitySpan span(Doing::rests, "the wait for a slot");
  changed_.wait(lock, [&] { return !queue.empty() || closed_ || failure_.failed(); });
  if (queue.empty()) failure_.rethrow();
  if (queue.empty()) return kClosed;
  const Slot slot = queue.front();
  queue.erase(queue.begin());
  return slot;
}

}  // namespace l2l::transfer
