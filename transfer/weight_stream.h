// Brings the layers' wires to the device in the order of the relay's visits, `slots - 1` layers ahead. A feeder thread
// waits for versions and enqueues copies; nothing else waits for an update. It enqueues the next copy, if it can,
// before it waits for one, so that the link goes from layer to layer without the host. A layer with a slot of its own
// stays there from its first to its last visit of a pass and crosses the link once.
//
// Of several devices that gather, each copies a slice of a wire, and the group gathers the rest. All of them then make
// the same fetches in the same order; one that is late holds up the others by its slots.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "device/peers.h"
#include "eps/parameter_store.h"
#include "transfer/layer_shares.h"
#include "transfer/link.h"
#include "transfer/slot_ring.h"
#include "transfer/wire_slices.h"

namespace l2l::transfer {

// Who makes a pass: all devices of the process, alike, or this one, which then has no peers to gather from.
enum class PassOf : std::uint8_t { all_devices, this_device };

// Thread-bound: the relay thread. The feeder is private.
class WeightStream {
 public:
  // A layer's wire in device memory, from next() to release().
  struct Visit {
    LayerIndex layer;
    SlotRing::Slot slot;
    device::BufferView wire;
  };

  // `slots`: shared by all layers without a slot of their own, each as large as the largest of them. `own`: per layer,
  // its own slot or an empty view. `wire_bytes`: per layer. `failure`: wakes blocked calls, which then rethrow it.
  // `peers`: what gathers, as the member of the link's index; slots then have WireSlices::room(). Null: this device
  // copies whole wires. Whoever has the group aborts it after a failure. `shares`: what the device has of each layer,
  // where layers are split, and `wire_bytes` are those of its shares; null: all of it.
  WeightStream(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
               const std::vector<device::BufferView>& own, std::vector<Bytes> wire_bytes, Failure& failure,
               device::Peers* peers = nullptr, const LayerShares* shares = nullptr);
  ~WeightStream();

  // Between passes, where no layer has a slot of its own: other layers, at most as many as at first, none larger than a
  // slot.
  void set_layers(std::vector<Bytes> wire_bytes) { wire_bytes_ = std::move(wire_bytes); }

  // Starts to fetch `visits` at `version`. `visits` must live until the last one is taken with next(), and those of the
  // pass before must all have been taken.
  void begin_pass(std::span<const LayerIndex> visits, eps::Version version, PassOf devices);
  // The next layer of the pass, once its copy is enqueued; `compute` waits until the wire is there.
  Visit next(device::Stream& compute);
  // What `compute` was given so far is the last use of the wire in this visit.
  void release(const Visit& visit, device::Stream& compute);

  // Ends the feeder and waits until the device has done what it enqueued, peers' memory included. After a failure, or
  // between passes; then only destruction is allowed.
  void stop();

  // Time that the feeder waited for versions, in total.
  std::chrono::nanoseconds update_stall() const { return std::chrono::nanoseconds(update_stall_ns_.load()); }

 private:
  struct Pass {
    std::span<const LayerIndex> visits;
    eps::Version version = 0;
    PassOf devices = PassOf::all_devices;
  };
  void run();
  bool wait_for_pass(Pass& pass);
  // A layer's copy that the device was given. Its lease lives until the copy is done: an update of the layer waits.
  struct Copy {
    std::optional<eps::WeightLease> lease;
    device::Event* done = nullptr;
  };

  void fetch(const Pass& pass);
  Copy fetch(LayerIndex layer, const Pass& pass, Copy& before);
  void finish(Copy& copy);
  void copy(const eps::WeightLease& lease, const WireSlices& slices, device::BufferView slot);
  void copy_share(const eps::WeightLease& lease, LayerIndex layer, device::BufferView slot);
  void gather(LayerIndex layer, const WireSlices& slices, device::BufferView slot, device::Event& copied);
  bool has_own(LayerIndex layer) const { return own_[static_cast<std::size_t>(layer)] != nullptr; }
  SlotRing& ring_of(LayerIndex layer) { return has_own(layer) ? *own_[static_cast<std::size_t>(layer)] : ring_; }
  // Negative control of overlap ("transfer.no_prefetch"): a fetch begins only when the device has come to its visit.
  void ask(device::Stream& compute);
  void wait_until_asked();

  Link& link_;  // constant after construction, as are the next four
  eps::ParameterStore& store_;
  Failure& failure_;
  device::Peers* const peers_;
  const LayerShares* const shares_;
  std::vector<Bytes> wire_bytes_;  // changes between passes alone
  std::unique_ptr<device::Stream> stream_;
  std::array<std::unique_ptr<device::Event>, 2> copied_;  // of the two layers whose copies may be under way, in turn
  // Where devices gather: the next slice is copied meanwhile.
  std::unique_ptr<device::Stream> gathering_;
  std::unique_ptr<device::Event> asked_;  // negative control
  SlotRing ring_;
  std::vector<std::unique_ptr<SlotRing>> own_;  // by layer, of one slot each; null: the layer has none
  std::atomic<std::int64_t> update_stall_ns_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  Pass pass_;              // guarded by mutex_
  bool has_pass_ = false;  // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  int visits_asked_ = 0;   // negative control; guarded by mutex_

  // Of the relay thread.
  std::span<const LayerIndex> upcoming_;  // visits of this pass
  std::vector<int> visits_left_;          // by layer
  std::vector<Visit> staying_;            // by layer: where it is between two visits, in a slot of its own

  // Of the feeder.
  std::vector<LayerIndex> to_fetch_;  // of this pass
  std::size_t turn_ = 0;              // of copied_

  Failure::Registration registration_;
  std::thread feeder_;  // last: it uses all of the above
};

}  // namespace l2l::transfer
