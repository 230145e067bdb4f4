// Keeps what a layer needs again in its backward visit. A run has up to two: one of layer inputs, where item (layer,
// microbatch) is the input of that layer, and one of what the layer's forward visit saves (compiler/remat). The input
// of the head is an item too, but it is used at once and never sent away.
//
// forward:   make (written by the layer before, or by the layer itself) → made → read (by the layer) → read_done
// backward:  begin_backward(items in order) → fetch → fetch_done, item by item
//
// Layers that rebuild their inputs fetch nothing: their backward visit reads the item of the layer after it and makes
// its own, and whatever visit comes next has read it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/failure.h"
#include "transfer/link.h"
#include "transfer/slot_ring.h"

namespace l2l::transfer {

struct StashItem {
  int layer;
  int microbatch;
  bool operator==(const StashItem&) const = default;
};

// Thread-bound: the relay thread. Calls do not wait for the device: waits are enqueued on streams. What a stash has
// nothing to do for, it leaves to the empty functions here.
class Stash {
 public:
  virtual ~Stash() = default;

  // Opens a pass. `keep`: items will be fetched in a backward pass (training).
  virtual void begin_forward([[maybe_unused]] bool keep) {}
  // Room on the device for `item`, to be written on `compute`.
  virtual device::BufferView make(StashItem item, device::Stream& compute) = 0;
  // `bytes` of the room are what the item takes this time, at most what it has room for at all.
  virtual void made([[maybe_unused]] StashItem item, [[maybe_unused]] device::Stream& compute,
                    [[maybe_unused]] Bytes bytes) {}
  // Where `item` lies, to be read on `compute` until read_done().
  virtual device::BufferView read(StashItem item) = 0;
  virtual void read_done([[maybe_unused]] StashItem item, [[maybe_unused]] device::Stream& compute) {}

  // The items will be fetched in exactly this order. Fetching starts when `compute` has done what it was given so far,
  // so that the memory it fills may be shared with the forward pass. `items` must live until the last one is fetched.
  virtual void begin_backward([[maybe_unused]] std::span<const StashItem> items,
                              [[maybe_unused]] device::Stream& compute) {}
  // `compute` waits until all items that leave the device have left it. Call after begin_backward().
  virtual void wait_until_left([[maybe_unused]] device::Stream& compute) {}
  // `compute` waits until the item is on the device.
  virtual device::BufferView fetch(StashItem item, device::Stream& compute) = 0;
  virtual void fetch_done([[maybe_unused]] StashItem item, [[maybe_unused]] device::Stream& compute) {}
};

// All items stay on the device. `items`: a place for each, [layer - first_layer][microbatch].
std::unique_ptr<Stash> make_device_stash(std::vector<device::BufferView> items, int first_layer, int microbatches);

// For layers that rebuild their inputs: an item lives until the next layer has read it. `buffers`: microbatches + 1,
// whatever the depth.
std::unique_ptr<Stash> make_rotating_stash(std::vector<device::BufferView> buffers, int microbatches);

// Items of layers from `first` on are rebuilt, in `rebuilt`; those of the layers below are kept, in `kept`.
std::unique_ptr<Stash> make_stash_below(std::unique_ptr<Stash> kept, std::unique_ptr<Stash> rebuilt, int first);

// Items of some layers stay on the device, the others go to `host`. `stays`: [layer - first_layer]. Each stash has room
// for the items that it gets. Backward visits begin when all that leaves has left, as with a host stash alone, so that
// the buffers it leaves from may be shared with them.
std::unique_ptr<Stash> make_split_stash(std::unique_ptr<Stash> device, std::unique_ptr<Stash> host,
                                        std::vector<bool> stays, int first_layer, int microbatches);

// Items are copied to host memory as soon as they are made, and fetched ahead of the backward visit: device memory does
// not depend on the number of layers. `out`: device buffers that items are made in and leave from, microbatches + 1 of
// them for layer inputs. `back`: device buffers that items are fetched into. Both are as large as the largest item.
// `host`: a place for each item, [layer - first_layer][microbatch]. `name`: its streams are "d2h NAME" and "h2d NAME".
std::unique_ptr<Stash> make_host_stash(Link& link, std::vector<device::BufferView> out,
                                       std::vector<device::BufferView> back, std::vector<device::BufferView> host,
                                       int first_layer, int microbatches, const std::string& name, Failure& failure);

}  // namespace l2l::transfer
