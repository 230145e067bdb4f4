#include "transfer/slot_ring.h"

namespace l2l::transfer {

using device::Stream;

SlotRing::SlotRing(device::Device& device, std::vector<device::BufferView> slots, int consumers,
                   device::WaitReason reason, Failure& failure)
    : device_(device),
      consumers_(consumers),
      reason_(reason),
      failure_(failure),
      free_(slots.size()),
      filled_(slots.size()),
      registration_(failure.on_failure([this] {
        { const std::lock_guard lock(mutex_); }
        changed_.notify_all();
      })) {
  for (const device::BufferView& slot : slots) {
    State state{slot, device.create_event(), {}, 0};
    for (int i = 0; i < consumers; ++i) state.released.push_back(device.create_event());
    free_.push(static_cast<Slot>(state_.size()));
    state_.push_back(std::move(state));
  }
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
    filled_.push(slot);
  }
  changed_.notify_all();
}

SlotRing::Slot SlotRing::take(Stream& consumer) {
  const Slot slot = pop_when_there(filled_);
  device_.wait(consumer, *state_[static_cast<std::size_t>(slot)].ready, reason_);
  return slot;
}

void SlotRing::release(Slot slot, Stream& consumer, int which) {
  State& state = state_[static_cast<std::size_t>(slot)];
  device_.record(*state.released[static_cast<std::size_t>(which)], consumer);
  {
    const std::lock_guard lock(mutex_);
    if (--state.in_use > 0) return;
    free_.push(slot);
  }
  changed_.notify_all();
}

SlotRing::Slot SlotRing::pop_when_there(SlotQueue& queue) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !queue.empty() || failure_.failed(); });
  if (queue.empty()) failure_.rethrow();
  return queue.pop();
}

int SlotQueue::pop() {
  const int slot = items_[first_];
  first_ = (first_ + 1) % items_.size();
  --count_;
  return slot;
}

}  // namespace l2l::transfer
