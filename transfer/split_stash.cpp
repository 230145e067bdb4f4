#include "transfer/stash.h"

namespace l2l::transfer {
namespace {

using device::Stream;

class SplitStash final : public Stash {
 public:
  SplitStash(std::unique_ptr<Stash> device, std::unique_ptr<Stash> host, std::vector<bool> stays, int first_layer,
             int microbatches)
      : device_(std::move(device)), host_(std::move(host)), stays_(std::move(stays)), first_layer_(first_layer) {
    on_host_.reserve(stays_.size() * static_cast<std::size_t>(microbatches));
  }

  void begin_forward(bool keep) override {
    device_->begin_forward(keep);
    host_->begin_forward(keep);
  }
  device::BufferView make(StashItem item, Stream& compute) override { return of(item).make(item, compute); }
  void made(StashItem item, Stream& compute, Bytes bytes) override { of(item).made(item, compute, bytes); }
  device::BufferView read(StashItem item) override { return of(item).read(item); }
  void read_done(StashItem item, Stream& compute) override { of(item).read_done(item, compute); }

  void begin_backward(std::span<const StashItem> items, Stream& compute) override {
    on_host_.clear();
    for (const StashItem& item : items) {
      if (!stays(item)) on_host_.push_back(item);
    }
    host_->begin_backward(on_host_, compute);
    waited_ = false;
  }

  void wait_until_left(Stream& compute) override { host_->wait_until_left(compute); }
  device::BufferView fetch(StashItem item, Stream& compute) override {
    if (!waited_) wait_until_left(compute);
    waited_ = true;
    return of(item).fetch(item, compute);
  }
  void fetch_done(StashItem item, Stream& compute) override { of(item).fetch_done(item, compute); }

 private:
  // The head's input is beyond the last entry: it is used at once, in a buffer of the host stash.
  bool stays(StashItem item) const {
    const auto index = static_cast<std::size_t>(item.layer - first_layer_);
    return index < stays_.size() && stays_[index];
  }
  Stash& of(StashItem item) { return stays(item) ? *device_ : *host_; }

  const std::unique_ptr<Stash> device_, host_;
  const std::vector<bool> stays_;
  const int first_layer_;
  std::vector<StashItem> on_host_;  // capacity for all: never allocates
  bool waited_ = false;             // in this backward pass
};

// Items of the layers below `first` go to one stash, the others to the other, which has nothing to fetch.
class StashBelow final : public Stash {
 public:
  StashBelow(std::unique_ptr<Stash> kept, std::unique_ptr<Stash> rebuilt, int first)
      : kept_(std::move(kept)), rebuilt_(std::move(rebuilt)), first_(first) {}

  void begin_forward(bool keep) override {
    kept_->begin_forward(keep);
    rebuilt_->begin_forward(keep);
  }
  // The backward visits that rebuild come first: their memory may be shared with what is still leaving.
  device::BufferView make(StashItem item, Stream& compute) override {
    if (!waited_) kept_->wait_until_left(compute);
    waited_ = true;
    return of(item).make(item, compute);
  }
  void made(StashItem item, Stream& compute, Bytes bytes) override { of(item).made(item, compute, bytes); }
  device::BufferView read(StashItem item) override { return of(item).read(item); }
  void read_done(StashItem item, Stream& compute) override { of(item).read_done(item, compute); }

  void begin_backward(std::span<const StashItem> items, Stream& compute) override {
    kept_->begin_backward(items, compute);
    waited_ = false;
  }
  device::BufferView fetch(StashItem item, Stream& compute) override { return kept_->fetch(item, compute); }
  void fetch_done(StashItem item, Stream& compute) override { kept_->fetch_done(item, compute); }

 private:
  Stash& of(StashItem item) { return item.layer < first_ ? *kept_ : *rebuilt_; }

  const std::unique_ptr<Stash> kept_, rebuilt_;
  const int first_;
  bool waited_ = true;  // in this backward pass
};

}  // namespace

std::unique_ptr<Stash> make_stash_below(std::unique_ptr<Stash> kept, std::unique_ptr<Stash> rebuilt, int first) {
  return std::make_unique<StashBelow>(std::move(kept), std::move(rebuilt), first);
}

std::unique_ptr<Stash> make_split_stash(std::unique_ptr<Stash> device, std::unique_ptr<Stash> host,
                                        std::vector<bool> stays, int first_layer, int microbatches) {
  return std::make_unique<SplitStash>(std::move(device), std::move(host), std::move(stays), first_layer, microbatches);
}

}  // namespace l2l::transfer
