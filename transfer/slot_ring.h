// A bounded queue of device buffers: the one fetch, ready, release state machine behind weights, the stash in both
// directions, and gradients.
//
//        acquire                filled                take                  release (by every consumer)
//   free ───────▶ being filled ───────▶ ready to use ─────▶ in use ──────────────────────────────────▶ free
//
// On the host it orders calls; on the device, events order the memory accesses. acquire() makes the producer's stream
// wait for what the consumers enqueued before release(), and take() makes the consumer's stream wait for what the
// producer enqueued before filled().
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/failure.h"
#include "device/device.h"

namespace l2l::transfer {

// Thread-safe, for one producer and one consumer thread, which may be the same. Allocates in its constructor alone.
// Slots are handed out in the order in which they were released, so their assignment is the same in every run.
class SlotRing {
 public:
  using Slot = int;
  static constexpr Slot kClosed = -1;

  // `consumers`: releases that make a slot free, each from its own stream. `reason`: what the consumer's wait counts
  // as. `failure`: wakes blocked calls, which then rethrow it.
  SlotRing(device::Device& device, std::vector<device::BufferView> slots, int consumers, device::WaitReason reason,
           Failure& failure);

  // Whether acquire() would find a slot free at once. Of the producer thread.
  bool has_free();
  // Blocks until a slot is free, then enqueues the wait for its consumers on `producer`, counted as `reason`.
  Slot acquire(device::Stream& producer, device::WaitReason reason = device::WaitReason::order);
  // What was enqueued on `producer` so far fills the slot.
  void filled(Slot slot, device::Stream& producer);
  // Blocks until the next slot, in order of filled(), is ready to use; then enqueues the wait for it on `consumer`.
  // kClosed: after close(), none is left.
  Slot take(device::Stream& consumer);
  // What was enqueued on `consumer` so far is its last use. `which`: the consumer, from 0.
  void release(Slot slot, device::Stream& consumer, int which = 0);
  // Nothing is filled any more: take() does not block.
  void close();

  device::BufferView view(Slot slot) const { return state_[static_cast<std::size_t>(slot)].view; }
  int slots() const { return static_cast<int>(state_.size()); }

 private:
  struct State {
    device::BufferView view;
    std::unique_ptr<device::Event> ready;
    std::vector<std::unique_ptr<device::Event>> released;  // per consumer
    int in_use = 0;                                        // releases still to come; guarded by mutex_
  };
  Slot pop_when_there(std::vector<Slot>& queue);

  device::Device& device_;  // constant after construction, as are the next three
  const int consumers_;
  const device::WaitReason reason_;
  Failure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> state_;  // in_use guarded by mutex_, the rest constant
  std::vector<Slot> free_;    // oldest first, as below; capacity for all; guarded by mutex_
  std::vector<Slot> filled_;  // guarded by mutex_
  bool closed_ = false;       // guarded by mutex_
  Failure::Registration registration_;
};

}  // namespace l2l::transfer
