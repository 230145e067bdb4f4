// The one fetch/ready/release state machine: a few device buffers through which a sequence of things passes. Weights,
// the stash on its way out and back, and gradients all use it.
//
//        acquire                filled                take                  release (by every consumer)
//   free ───────▶ being filled ───────▶ ready to use ─────▶ in use ──────────────────────────────────▶ free
//
// The host side only keeps the order of calls; that the memory itself may be reused is carried by events: acquire()
// makes the producer's stream wait for what the consumers enqueued before release(), and take() makes the consumer's
// stream wait for what the producer enqueued before filled().
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/failure.h"
#include "device/device.h"

namespace l2l::transfer {

// Slots, first in, first out; room for `capacity` of them, so that it never allocates. Thread-bound.
class SlotQueue {
 public:
  explicit SlotQueue(std::size_t capacity) : items_(capacity) {}
  bool empty() const { return count_ == 0; }
  void push(int slot) { items_[(first_ + count_++) % items_.size()] = slot; }
  int pop();

 private:
  std::vector<int> items_;
  std::size_t first_ = 0, count_ = 0;
};

// Thread-safe; made for one producer and one consumer thread, which may be the same. Slots are handed out in the order
// in which they were released, so the assignment of slots is the same in every run.
class SlotRing {
 public:
  using Slot = int;

  // `consumers`: how many releases make a slot free, each from a stream of its own. `reason`: what a consumer's wait is
  // booked to. `failure`: wakes blocked calls, which then rethrow it.
  SlotRing(device::Device& device, std::vector<device::BufferView> slots, int consumers, device::WaitReason reason,
           Failure& failure);

  // Blocks until some slot was released, then enqueues the wait for its consumers on `producer`, booked to `reason`.
  Slot acquire(device::Stream& producer, device::WaitReason reason = device::WaitReason::order);
  // What `producer` has enqueued so far fills the slot.
  void filled(Slot slot, device::Stream& producer);
  // Blocks until the next slot, in order of filling, was filled; then enqueues the wait for it on `consumer`.
  Slot take(device::Stream& consumer);
  // `consumer` has enqueued its last use. `which` tells consumers of one slot apart, from 0.
  void release(Slot slot, device::Stream& consumer, int which = 0);

  // Blocks the calling thread until what fills `slot` has happened. Only between filled() and the slot's next
  // acquire().
  void synchronize_filled(Slot slot) { device_.synchronize(*state_[static_cast<std::size_t>(slot)].ready); }

  device::BufferView view(Slot slot) const { return state_[static_cast<std::size_t>(slot)].view; }
  int slots() const { return static_cast<int>(state_.size()); }

 private:
  struct State {
    device::BufferView view;
    std::unique_ptr<device::Event> ready;
    std::vector<std::unique_ptr<device::Event>> released;  // per consumer
    int in_use = 0;                                        // releases still to come; guarded by mutex_
  };
  Slot pop_when_there(SlotQueue& queue);

  device::Device& device_;  // constant after construction, as are the next three
  const int consumers_;
  const device::WaitReason reason_;
  Failure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> state_;  // in_use guarded by mutex_, the rest constant
  SlotQueue free_;            // guarded by mutex_
  SlotQueue filled_;          // guarded by mutex_
  Failure::Registration registration_;
};

}  // namespace l2l::transfer
