// The stashes whose items never leave the device.
#include <cassert>

#include "transfer/stash.h"

namespace l2l::transfer {
namespace {

class DeviceStash final : public Stash {
 public:
  DeviceStash(std::vector<device::BufferView> items, int first_layer, int microbatches)
      : items_(std::move(items)), first_layer_(first_layer), microbatches_(microbatches) {}

  device::BufferView make(StashItem item, device::Stream&) override { return place(item); }
  device::BufferView read(StashItem item) override { return place(item); }
  device::BufferView fetch(StashItem item, device::Stream&) override { return place(item); }

 private:
  device::BufferView place(StashItem item) const {
    return items_[static_cast<std::size_t>((item.layer - first_layer_) * microbatches_ + item.microbatch)];
  }

  const std::vector<device::BufferView> items_;
  const int first_layer_;
  const int microbatches_;
};

// An item gets the buffer that was freed last. All work is on one stream, so no events are needed.
class RotatingStash final : public Stash {
 public:
  RotatingStash(std::vector<device::BufferView> buffers, int microbatches)
      : microbatches_(microbatches), free_(std::move(buffers)), held_(static_cast<std::size_t>(2 * microbatches)) {}

  device::BufferView make(StashItem item, device::Stream&) override {
    assert(!free_.empty());
    held(item) = free_.back();
    free_.pop_back();
    return held(item);
  }
  device::BufferView read(StashItem item) override { return held(item); }
  void read_done(StashItem item, device::Stream&) override { free_.push_back(held(item)); }
  device::BufferView fetch(StashItem, device::Stream&) override { throw Error("this stash keeps nothing to fetch"); }

 private:
  // Items of at most two neighbouring layers live at a time.
  device::BufferView& held(StashItem item) {
    return held_[static_cast<std::size_t>(item.layer % 2 * microbatches_ + item.microbatch)];
  }

  const int microbatches_;
  std::vector<device::BufferView> free_;  // capacity for all: never allocates
  std::vector<device::BufferView> held_;
};

}  // namespace

std::unique_ptr<Stash> make_device_stash(std::vector<device::BufferView> items, int first_layer, int microbatches) {
  return std::make_unique<DeviceStash>(std::move(items), first_layer, microbatches);
}

std::unique_ptr<Stash> make_rotating_stash(std::vector<device::BufferView> buffers, int microbatches) {
  return std::make_unique<RotatingStash>(std::move(buffers), microbatches);
}

}  // namespace l2l::transfer
