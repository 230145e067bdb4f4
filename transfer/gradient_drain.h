// Copies a layer's finished gradients to the host and pushes them to the parameter server while the device works on the
// next layer. A sender thread enqueues the copies as soon as there is memory for them, and a completion thread waits
// for them and calls push(), so that the link goes from layer to layer without the host.
//
// Where the devices of a process sum, the sender first exchanges slices with the drains of the others, which all drain
// the same layers in the same order, sums the gradients of its slice, and copies the sums alone. Their squares are left
// to the host.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/failure.h"
#include "device/peers.h"
#include "eps/parameter_store.h"
#include "transfer/gradient_slices.h"
#include "transfer/layer_shares.h"
#include "transfer/link.h"
#include "transfer/slot_ring.h"

namespace l2l::transfer {

// A slot holds a layer's gradients and, behind them, their sum of squares (f64), which the device computes while it
// rounds them: the host then reads each gradient once, in the update.
constexpr Bytes squares_offset(Bytes gradients) { return align_up(gradients, 16); }
constexpr Bytes drained_bytes(Bytes gradients) { return squares_offset(gradients) + sizeof(double); }

// Copies that one drain may have under way.
inline constexpr std::size_t kDrainCopies = 2;

// What it needs where devices sum: slots then have room for GradientSlices::room(), too.
struct DeviceSums {
  device::Peers* peers = nullptr;          // all drains'; null: devices do not sum
  device::BufferView received, sums = {};  // on the device, for the slices of the largest layer
  // Enqueues the sums of a layer's slices: of `received` over devices, in fp32.
  std::function<void(device::Stream&, LayerIndex, device::BufferView received, device::BufferView sums)> add;
};

// What it needs where layers are split over devices.
struct DrainShares {
  const LayerShares* shares = nullptr;  // null: they are not
  GroupGradients* group = nullptr;      // that the device brings its gradients to
};

// Thread-bound: the relay thread. The other two are private.
class GradientDrain {
 public:
  // `slots`: device buffers, each of drained_bytes() of the largest layer. `squares`: kDrainCopies doubles in
  // page-locked memory. `gradients`: per layer, as they leave the device. `failure`: wakes blocked calls, which then
  // rethrow it, and receives what fails on the two threads.
  GradientDrain(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                device::BufferView squares, std::vector<GradientSlices> gradients, Failure& failure,
                DeviceSums sums = {}, DrainShares shares = {});
  ~GradientDrain();

  // Between steps: other layers, none with larger gradients than a slot has room for.
  void set_layers(std::vector<GradientSlices> gradients) { gradients_ = std::move(gradients); }

  // Room for the gradients of `layer` and their sum of squares, to be written on `compute`.
  device::BufferView acquire(LayerIndex layer, device::Stream& compute);
  // What was enqueued on `compute` so far has written them: sends them off. Follows acquire() of the same layer.
  void drain(device::Stream& compute) { ring_.filled(current_, compute); }

  // Ends both threads and waits for their stream, which may read the slots of other devices: no device frees its
  // memory before all drains have been stopped. After a failure, or when all gradients have been pushed; then only
  // destruction is allowed.
  void stop();

 private:
  // A copy that the device was given. Of the sender, from when it is free to when it is counted as enqueued; then of
  // the completion thread.
  struct Copy {
    LayerIndex layer = 0;
    eps::GradientBuffer gradients;
    device::BufferView squares;
    std::unique_ptr<device::Event> done;
  };

  void send_all();
  void send(SlotRing::Slot slot, Copy& copy);
  void send_sums(SlotRing::Slot slot, Copy& copy);
  void send_share(SlotRing::Slot slot, LayerIndex layer);
  void push(Copy& copy);
  Copy& next_free();
  void push_all();
  Copy* next_enqueued();
  void count(std::uint64_t& copies);

  Link& link_;  // constant after construction, as are the next four
  eps::ParameterStore& store_;
  Failure& failure_;
  const DeviceSums sums_;
  const DrainShares shares_;
  std::vector<GradientSlices> gradients_;  // by layer; changes between steps alone
  std::unique_ptr<device::Stream> stream_;
  SlotRing ring_;
  std::vector<LayerIndex> slot_layer_;  // written by the relay before filled(), read after take()
  SlotRing::Slot current_ = -1;         // of the relay thread

  std::array<Copy, kDrainCopies> copies_;  // in turn
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t enqueued_ = 0, pushed_ = 0;  // copies so far; guarded by mutex_
  bool sent_all_ = false;                    // no more will be enqueued; guarded by mutex_
  Failure::Registration registration_;
  std::thread sender_, completion_;  // last: they use all of the above
};

}  // namespace l2l::transfer
