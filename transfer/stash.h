// What layers need again, between their forward and their backward visit. An item (layer, microbatch) of the stash of
// layer inputs is the input of that layer; the head's input is an item too, but is used at once and never sent away. A
// second stash has what a layer's own forward visit saves for its backward visit (device/recompute), of any size.
//
// forward:   make (the layer below, or the layer itself, writes it) → made → read (the layer's forward) → read_done
// backward:  begin_backward(items in order) → fetch → fetch_done, item by item
//
// Where layers rebuild their inputs, the backward visit is one of the forward kind, downwards: it reads the item of the
// layer above and makes its own.
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

// Thread-bound: the relay thread. No call blocks it; waits are enqueued on streams.
class Stash {
 public:
  virtual ~Stash() = default;

  // Opens a pass. `keep`: items will be fetched in a backward pass (training).
  virtual void begin_forward(bool keep) = 0;
  // Room on the device for `item`, to be written on `compute`.
  virtual device::BufferView make(StashItem item, device::Stream& compute) = 0;
  virtual void made(StashItem item, device::Stream& compute) = 0;
  // The same bytes, to be read on `compute`, until read_done().
  virtual device::BufferView read(StashItem item) = 0;
  virtual void read_done(StashItem item, device::Stream& compute) = 0;

  // The items will be fetched in exactly this order, from when `compute` has done what it was given until now: what
  // fetches may share memory with the way up. `items` must live until the last one is fetched.
  virtual void begin_backward(std::span<const StashItem> items, device::Stream& compute) = 0;
  // `compute` waits until all items that leave the device have left it. After begin_backward().
  virtual void wait_until_left(device::Stream&) {}
  // `compute` waits until the item is on the device.
  virtual device::BufferView fetch(StashItem item, device::Stream& compute) = 0;
  virtual void fetch_done(StashItem item, device::Stream& compute) = 0;
};

// Every item has a place on the device of its own: [layer first_layer, ...][microbatch].
std::unique_ptr<Stash> make_device_stash(std::vector<device::BufferView> items, int first_layer, int microbatches);

// Nothing is kept beyond the next layer, and nothing sent: `buffers` are microbatches + 1, whatever the depth.
std::unique_ptr<Stash> make_rotating_stash(std::vector<device::BufferView> buffers, int microbatches);

// Some items stay on the device, the others go to `host`: `stays`, by [layer first_layer, ...], has one entry for each
// layer, and each stash room for the items that it gets. The backward visits begin when all that leaves has left, as
// with a host stash alone, so that what leaves may share memory with them.
std::unique_ptr<Stash> make_split_stash(std::unique_ptr<Stash> device, std::unique_ptr<Stash> host,
                                        std::vector<bool> stays, int first_layer, int microbatches);

// Items are copied to host memory as soon as they are made, and fetched ahead of the backward visit. Device
// memory does not depend on the number of blocks.
// `out`: device buffers that are written and leave: of layer inputs microbatches + 1; `back`: device buffers to fetch
// through; both as large as the largest item. `host`: one place per item [layer first_layer, ...][microbatch].
// `name`: of its streams, "d2h <name>" and "h2d <name>".
std::unique_ptr<Stash> make_host_stash(Link& link, std::vector<device::BufferView> out,
                                       std::vector<device::BufferView> back, std::vector<device::BufferView> host,
                                       int first_layer, int microbatches, const std::string& name, Failure& failure);

}  // namespace l2l::transfer
