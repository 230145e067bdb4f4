#include <cassert>

#include "core/fault_point.h"
#include "transfer/stash.h"

namespace l2l::transfer {
namespace {

using device::Stream;
using device::WaitReason;

// Who reads a slot of the outgoing ring.
enum Consumer : int { kCompute = 0, kCopy = 1, kConsumers = 2 };

class HostStash final : public Stash {
 public:
  HostStash(Link& link, std::vector<device::BufferView> out, std::vector<device::BufferView> back,
            std::vector<device::BufferView> host, int first_layer, int microbatches, const std::string& name,
            Failure& failure)
      : link_(link),
        host_(std::move(host)),
        first_layer_(first_layer),
        microbatches_(microbatches),
        out_stream_(link.create_stream("d2h " + name)),
        back_stream_(link.create_stream("h2d " + name)),
        forward_done_(link.device().create_event()),
        stored_(link.device().create_event()),
        held_(static_cast<std::size_t>(2 * microbatches)),
        bytes_(host_.size()),
        out_(link.device(), std::move(out), kConsumers, WaitReason::stash, failure),
        back_(link.device(), std::move(back), /*consumers=*/1, WaitReason::stash, failure) {}

  ~HostStash() override {
    link_.quiesce(*out_stream_);
    link_.quiesce(*back_stream_);
  }

  void begin_forward(bool keep) override { keep_ = keep; }

  device::BufferView make(StashItem item, Stream& compute) override {
    held(item) = out_.acquire(compute, WaitReason::stash);
    return out_.view(held(item));
  }

  void made(StashItem item, Stream& compute, Bytes bytes) override {
    out_.filled(held(item), compute);
    const SlotRing::Slot slot = out_.take(*out_stream_);
    assert(slot == held(item));
    link_.device().annotate(*out_stream_, item.layer, item.microbatch);
    if (keep_ && is_sent(item)) {
      bytes_[index(item)] = bytes;
      link_.to_host(Traffic::stash, *out_stream_, place(item), part(out_.view(slot), item));
    }
    out_.release(slot, *out_stream_, kCopy);
  }

  device::BufferView read(StashItem item) override { return out_.view(held(item)); }

  void read_done(StashItem item, Stream& compute) override { out_.release(held(item), compute, kCompute); }

  // Of a split stash the items of the last layers may be elsewhere, so the last one made here does not end the forward
  // pass.
  void begin_backward(std::span<const StashItem> items, Stream& compute) override {
    items_ = items;
    next_fetch_ = 0;
    link_.device().record(*forward_done_, compute);
    link_.device().wait(*out_stream_, *forward_done_);
    link_.device().record(*stored_, *out_stream_);
    link_.device().wait(*back_stream_, *stored_);
    for (int i = 0; i < back_.slots() && !on_demand(); ++i) fetch_ahead();
  }

  void wait_until_left(Stream& compute) override { link_.device().wait(compute, *stored_, WaitReason::stash); }

  device::BufferView fetch([[maybe_unused]] StashItem item, Stream& compute) override {
    if (on_demand()) {
      link_.device().record(*stored_, compute);
      link_.device().wait(*back_stream_, *stored_);
      fetch_ahead();
    }
    fetched_ = back_.take(compute);
    assert(items_[next_take_ % items_.size()] == item);
    return back_.view(fetched_);
  }

  void fetch_done(StashItem, Stream& compute) override {
    back_.release(fetched_, compute);
    next_take_ = next_take_ + 1 == items_.size() ? 0 : next_take_ + 1;
    if (!on_demand()) fetch_ahead();
  }

 private:
  // The slot of an item between make() and read_done(); items of at most two neighbouring layers have one.
  SlotRing::Slot& held(StashItem item) {
    return held_[static_cast<std::size_t>(item.layer % 2 * microbatches_ + item.microbatch)];
  }

  // Negative control of overlap: an item is fetched only when the device has come to its use.
  static bool on_demand() { return fault_point("transfer.no_prefetch"); }
  // It has a place in host memory; the head's input has none.
  bool is_sent(StashItem item) const {
    return static_cast<std::size_t>((item.layer - first_layer_ + 1) * microbatches_) <= host_.size();
  }

  std::size_t index(StashItem item) const {
    return static_cast<std::size_t>((item.layer - first_layer_) * microbatches_ + item.microbatch);
  }
  device::BufferView place(StashItem item) const {
    return part(host_[fault_point("stash.reuse_slot") ? index(item) / 2 : index(item)], item);
  }

  // What the item takes of its room, or of a slot, which is as large as the largest room.
  device::BufferView part(device::BufferView room, StashItem item) const { return room.slice(0, bytes_[index(item)]); }

  // Enqueues the next fetch into the slot that has just become free.
  void fetch_ahead() {
    if (next_fetch_ == items_.size()) return;
    const SlotRing::Slot slot = back_.acquire(*back_stream_);
    const StashItem item = items_[next_fetch_++];
    link_.device().annotate(*back_stream_, item.layer, item.microbatch);
    link_.to_device(Traffic::stash, *back_stream_, part(back_.view(slot), item), place(item));
    back_.filled(slot, *back_stream_);
  }

  Link& link_;
  const std::vector<device::BufferView> host_;
  const int first_layer_;
  const int microbatches_;
  const std::unique_ptr<Stream> out_stream_;
  const std::unique_ptr<Stream> back_stream_;
  const std::unique_ptr<device::Event> forward_done_, stored_;
  std::vector<SlotRing::Slot> held_;
  std::vector<Bytes> bytes_;  // of each item since it was made
  SlotRing out_;
  SlotRing back_;

  bool keep_ = false;
  std::span<const StashItem> items_;
  std::size_t next_fetch_ = 0;
  std::size_t next_take_ = 0;
  SlotRing::Slot fetched_ = -1;
};

}  // namespace

std::unique_ptr<Stash> make_host_stash(Link& link, std::vector<device::BufferView> out,
                                       std::vector<device::BufferView> back, std::vector<device::BufferView> host,
                                       int first_layer, int microbatches, const std::string& name, Failure& failure) {
  return std::make_unique<HostStash>(link, std::move(out), std::move(back), std::move(host), first_layer, microbatches,
                                     name, failure);
}

}  // namespace l2l::transfer
