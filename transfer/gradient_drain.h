// Copies a layer's finished gradients to the host and pushes them to the parameter server while the device works on the
// next layer. A completion thread waits for the copies and calls push().
//
// Where the devices of a process sum, it first exchanges slices with the drains of the others, which all drain the same
// layers in the same order, sums the gradients of its slice, and copies the sums alone. Their squares are left to the
// host.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "device/peers.h"
#include "eps/parameter_store.h"
#include "transfer/gradient_slices.h"
#include "transfer/link.h"
#include "transfer/slot_ring.h"

namespace l2l::transfer {

// A slot holds a layer's gradients and, behind them, their sum of squares (f64), which the device computes while it
// rounds them: the host then reads each gradient once, in the update.
constexpr Bytes squares_offset(Bytes gradients) { return align_up(gradients, 16); }
constexpr Bytes drained_bytes(Bytes gradients) { return squares_offset(gradients) + sizeof(double); }

// What it needs where devices sum: slots then have room for GradientSlices::room(), too.
struct DeviceSums {
  device::Peers* peers = nullptr;          // all drains'; null: devices do not sum
  device::BufferView received, sums = {};  // on the device, for the slices of the largest layer
  // Enqueues the sums of a layer's slices: of `received` over devices, in fp32.
  std::function<void(device::Stream&, LayerIndex, device::BufferView received, device::BufferView sums)> add;
};

// Thread-bound: the relay thread. The completion thread is private.
class GradientDrain {
 public:
  // `slots`: device buffers, each of drained_bytes() of the largest layer. `squares`: a double in page-locked memory.
  // `gradients`: per layer, as they leave the device. `failure`: wakes blocked calls, which then rethrow it, and
  // receives what fails on the completion thread.
  GradientDrain(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                device::BufferView squares, std::vector<GradientSlices> gradients, Failure& failure,
                DeviceSums sums = {});
  ~GradientDrain();

  // Between steps: other layers, none with larger gradients than a slot has room for.
  void set_layers(std::vector<GradientSlices> gradients) { gradients_ = std::move(gradients); }

  // Room for the gradients of `layer` and their sum of squares, to be written on `compute`.
  device::BufferView acquire(LayerIndex layer, device::Stream& compute);
  // What was enqueued on `compute` so far has written them: sends them off. Follows acquire() of the same layer.
  void drain(device::Stream& compute) { ring_.filled(current_, compute); }

  // Ends the completion thread and waits for its stream, which may read the slots of other devices: no device frees its
  // memory before all drains have been stopped. After a failure, or when all gradients have been pushed; then only
  // destruction is allowed.
  void stop();

 private:
  void run();
  void send(SlotRing::Slot slot, LayerIndex layer);
  void send_sums(SlotRing::Slot slot, LayerIndex layer);

  Link& link_;  // constant after construction, as are the next four
  eps::ParameterStore& store_;
  Failure& failure_;
  const device::BufferView squares_;
  const DeviceSums sums_;
  std::vector<GradientSlices> gradients_;  // by layer; changes between steps alone
  std::unique_ptr<device::Stream> stream_;
  SlotRing ring_;
  std::vector<LayerIndex> slot_layer_;  // written by the relay before filled(), read after take()
  SlotRing::Slot current_ = -1;         // of the relay thread
  std::thread completion_;              // last: it uses all of the above
};

}  // namespace l2l::transfer
