#include <cassert>

#include "transfer/stash.h"

namespace l2l::transfer {
namespace {

// An item gets the buffer that was freed last. All work is on one stream, so no events are needed.
class RotatingStash final : public Stash {
 public:
  RotatingStash(std::vector<device::BufferView> buffers, int microbatches)
      : microbatches_(microbatches), free_(std::move(buffers)), held_(static_cast<std::size_t>(2 * microbatches)) {}

  void begin_forward(bool) override {}
  device::BufferView make(StashItem item, device::Stream&) override {
    assert(!free_.empty());
    held(item) = free_.back();
    free_.pop_back();
    return held(item);
  }
  void made(StashItem, device::Stream&, Bytes) override {}
  device::BufferView read(StashItem item) override { return held(item); }
  void read_done(StashItem item, device::Stream&) override { free_.push_back(held(item)); }

  void begin_backward(std::span<const StashItem>, device::Stream&) override {}
  device::BufferView fetch(StashItem, device::Stream&) override { throw Error("this stash keeps nothing to fetch"); }
  void fetch_done(StashItem, device::Stream&) override {}

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

std::unique_ptr<Stash> make_rotating_stash(std::vector<device::BufferView> buffers, int microbatches) {
  return std::make_unique<RotatingStash>(std::move(buffers), microbatches);
}

}  // namespace l2l::transfer
