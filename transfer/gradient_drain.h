// Copies a layer's finished gradients to the host and pushes them to the parameter server while the device works on the
// next layer. A completion thread waits for the copies and calls push().
#pragma once

#include <thread>
#include <vector>

#include "eps/parameter_store.h"
#include "transfer/link.h"
#include "transfer/slot_ring.h"

namespace l2l::transfer {

// A slot holds a layer's gradients and, behind them, their sum of squares (f64), which the device computes while it
// rounds them: the host then reads each gradient once, in the update.
constexpr Bytes squares_offset(Bytes gradients) { return align_up(gradients, 16); }
constexpr Bytes drained_bytes(Bytes gradients) { return squares_offset(gradients) + sizeof(double); }

// Thread-bound: the relay thread. The completion thread is private.
class GradientDrain {
 public:
  // `slots`: device buffers, each of drained_bytes() of the largest layer. `squares`: a double in page-locked memory.
  // `gradient_bytes`: per layer, in the dtype that crosses the link. `failure`: wakes blocked calls, which then rethrow
  // it, and receives what fails on the completion thread.
  GradientDrain(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                device::BufferView squares, std::vector<Bytes> gradient_bytes, Failure& failure);
  ~GradientDrain();

  // Between steps: other layers, none with larger gradients than a slot has room for.
  void set_layers(std::vector<Bytes> gradient_bytes) { gradient_bytes_ = std::move(gradient_bytes); }

  // Room for the gradients of `layer` and their sum of squares, to be written on `compute`.
  device::BufferView acquire(LayerIndex layer, device::Stream& compute);
  // What was enqueued on `compute` so far has written them: sends them off. Follows acquire() of the same layer.
  void drain(device::Stream& compute) { ring_.filled(current_, compute); }

 private:
  void run();

  Link& link_;  // constant after construction, as are the next three
  eps::ParameterStore& store_;
  Failure& failure_;
  const device::BufferView squares_;
  std::vector<Bytes> gradient_bytes_;  // of the relay thread
  std::unique_ptr<device::Stream> stream_;
  SlotRing ring_;
  std::vector<LayerIndex> slot_layer_;  // written by the relay before filled(), read after take()
  SlotRing::Slot current_ = -1;         // of the relay thread
  std::thread completion_;              // last: it uses all of the above
};

}  // namespace l2l::transfer
