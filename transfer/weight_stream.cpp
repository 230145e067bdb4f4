#include "transfer/weight_stream.h"

#include <algorithm>
#include <utility>

#include "core/activity.h"
#include "core/fault_point.h"
#include "l2l/errors.h"

namespace l2l::transfer {
namespace {

// A ring of one slot for each layer that has its own.
std::vector<std::unique_ptr<SlotRing>> rings_of(device::Device& device, const std::vector<device::BufferView>& own,
                                                Failure& failure) {
  std::vector<std::unique_ptr<SlotRing>> rings(own.size());
  for (std::size_t layer = 0; layer < own.size(); ++layer) {
    if (own[layer].size == 0) continue;
    rings[layer] = std::make_unique<SlotRing>(device, std::vector{own[layer]}, /*consumers=*/1,
                                              device::WaitReason::weights, failure);
  }
  return rings;
}

}  // namespace

WeightStream::WeightStream(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                           const std::vector<device::BufferView>& own, std::vector<Bytes> wire_bytes, Failure& failure,
                           device::Peers* peers, const LayerShares* shares)
    : link_(link),
      store_(store),
      failure_(failure),
      peers_(peers),
      shares_(shares),
      wire_bytes_(std::move(wire_bytes)),
      stream_(link.create_stream("h2d weights")),
      copied_{link.device().create_event(), link.device().create_event()},
      gathering_(peers != nullptr ? link.create_stream("gather weights") : nullptr),
      asked_(link.device().create_event()),
      ring_(link.device(), std::move(slots), /*consumers=*/1, device::WaitReason::weights, failure),
      own_(rings_of(link.device(), own, failure)),
      visits_left_(wire_bytes_.size()),
      staying_(wire_bytes_.size()),
      registration_(failure.on_failure([this] {
        { const std::lock_guard lock(mutex_); }
        changed_.notify_all();
      })),
      feeder_([this] { run(); }) {}

WeightStream::~WeightStream() { stop(); }

void WeightStream::stop() {
  if (!feeder_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  feeder_.join();
  link_.quiesce(*stream_);
  if (gathering_) link_.quiesce(*gathering_);
}

void WeightStream::begin_pass(std::span<const LayerIndex> visits, eps::Version version, PassOf devices) {
  {
    std::unique_lock lock(mutex_);
    const ActivitySpan span(Doing::rests, "the wait for the feeder");
    changed_.wait(lock, [&] { return !has_pass_ || failure_.failed(); });
    failure_.rethrow();
    pass_ = {visits, version, devices};
    has_pass_ = true;
  }
  changed_.notify_all();
  upcoming_ = visits;
  for (const LayerIndex layer : visits) ++visits_left_[static_cast<std::size_t>(layer)];
}

WeightStream::Visit WeightStream::next(device::Stream& compute) {
  const LayerIndex layer = upcoming_.front();
  const auto index = static_cast<std::size_t>(layer);
  upcoming_ = upcoming_.subspan(1);
  --visits_left_[index];
  if (staying_[index].wire.size > 0) return std::exchange(staying_[index], Visit{});
  if (fault_point("transfer.no_prefetch")) ask(compute);
  SlotRing& ring = ring_of(layer);
  const SlotRing::Slot slot = ring.take(compute);
  return {layer, slot, ring.view(slot).slice(0, wire_bytes_[index])};
}

void WeightStream::release(const Visit& visit, device::Stream& compute) {
  const auto index = static_cast<std::size_t>(visit.layer);
  if (has_own(visit.layer) && visits_left_[index] > 0) {
    staying_[index] = visit;
  } else {
    ring_of(visit.layer).release(visit.slot, compute);
  }
}

void WeightStream::run() {
  const ThreadActivity listed("weight feeder", link_.index());
  try {
    Pass pass;
    while (wait_for_pass(pass)) fetch(pass);
  } catch (...) {
    failure_.fail(named_exception("weight feeder " + std::to_string(link_.index())));
  }
}

bool WeightStream::wait_for_pass(Pass& pass) {
  std::unique_lock lock(mutex_);
  const ActivitySpan span(Doing::rests, "the wait for a pass");
  changed_.wait(lock, [&] { return has_pass_ || stopping_ || failure_.failed(); });
  if (!has_pass_ || failure_.failed()) return false;
  pass = pass_;
  has_pass_ = false;
  changed_.notify_all();
  return true;
}

void WeightStream::ask(device::Stream& compute) {
  link_.device().record(*asked_, compute);
  {
    const std::lock_guard lock(mutex_);
    ++visits_asked_;
  }
  changed_.notify_all();
}

void WeightStream::wait_until_asked() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return visits_asked_ > 0 || failure_.failed(); });
  failure_.rethrow();
  --visits_asked_;
  link_.device().wait(*stream_, *asked_);
}

// Reads all visits before the first fetch: until a layer is fetched and taken, the caller keeps them alive.
void WeightStream::fetch(const Pass& pass) {
  to_fetch_.clear();
  for (const LayerIndex layer : pass.visits) {
    if (!has_own(layer) || std::ranges::count(to_fetch_, layer) == 0) to_fetch_.push_back(layer);
  }
  store_.announce(link_.contributor(), to_fetch_, pass.version, pass.devices == PassOf::this_device);
  Copy before;
  for (const LayerIndex layer : to_fetch_) {
    Copy next = fetch(layer, pass, before);
    finish(before);  // the device goes on with the next one
    before = std::move(next);
  }
  finish(before);
}

// Where this has to wait for a slot or a version, the copy `before` is finished first, so that its lease ends.
WeightStream::Copy WeightStream::fetch(LayerIndex layer, const Pass& pass, Copy& before) {
  if (fault_point("transfer.no_prefetch")) {
    finish(before);
    wait_until_asked();
  }
  const ActivitySpan span(Doing::acts, "a fetch", layer);
  SlotRing& ring = ring_of(layer);
  if (!ring.has_free()) finish(before);
  const SlotRing::Slot slot = ring.acquire(*stream_);
  std::optional<eps::WeightLease> lease = store_.try_pull(layer, pass.version, link_.contributor());
  if (!lease) {
    finish(before);
    std::chrono::nanoseconds waited{0};
    lease = store_.pull(layer, pass.version, &waited, link_.contributor());
    update_stall_ns_ += waited.count();
  }
  link_.device().annotate(*stream_, layer, -1);
  const bool gathers = peers_ != nullptr && pass.devices == PassOf::all_devices;
  const WireSlices slices{wire_bytes_[static_cast<std::size_t>(layer)], gathers ? peers_->count() : 1};
  shares_ != nullptr ? copy_share(*lease, layer, ring.view(slot)) : copy(*lease, slices, ring.view(slot));
  device::Event& copied = *copied_[turn_];
  turn_ = (turn_ + 1) % copied_.size();
  link_.device().record(copied, *stream_);
  if (gathers) gather(layer, slices, ring.view(slot), copied);
  ring.filled(slot, gathers ? *gathering_ : *stream_);
  return {std::move(lease), &copied};
}

void WeightStream::finish(Copy& copy) {
  if (!copy.lease) return;
  link_.device().synchronize(*copy.done);
  copy.lease.reset();
}

// Of each part of the wire, what lies in this device's slice.
void WeightStream::copy(const eps::WeightLease& lease, const WireSlices& slices, device::BufferView slot) {
  const int device = slices.devices > 1 ? link_.index() : 0;
  if (fault_point("weights.stale_slice") && device == 1) return;
  const Bytes slice_begin = slices.begin(device), slice_end = slice_begin + slices.bytes(device);
  for (const eps::WirePart& part : lease.parts()) {
    const Bytes begin = std::max(part.offset, slice_begin), end = std::min(part.offset + part.bytes, slice_end);
    if (begin >= end) continue;
    link_.to_device(Traffic::weights, *stream_, slot.slice(begin, end - begin),
                    {const_cast<std::byte*>(part.data) + (begin - part.offset), end - begin});
  }
}

void WeightStream::copy_share(const eps::WeightLease& lease, LayerIndex layer, device::BufferView slot) {
  for (const SharedBlock& block : shares_->of(layer)) {
    const Bytes from = static_cast<Bytes>(block.whole) * shares_->wire;
    const auto part = std::ranges::find_if(lease.parts(), [&](const eps::WirePart& each) {
      return from >= each.offset && from < each.offset + each.bytes;
    });
    if (part == lease.parts().end())
      throw Error("a share of layer " + std::to_string(layer) + " lies outside its wire");
    link_.rows_to_device(Traffic::weights, *stream_,
                         {.destination = slot.data + static_cast<Bytes>(block.own) * shares_->wire,
                          .destination_stride = static_cast<Bytes>(block.own_stride) * shares_->wire,
                          .source = part->data + (from - part->offset),
                          .source_stride = static_cast<Bytes>(block.whole_stride) * shares_->wire,
                          .row = static_cast<Bytes>(block.columns) * shares_->wire,
                          .rows = static_cast<Bytes>(block.rows)});
  }
}

void WeightStream::gather(LayerIndex layer, const WireSlices& slices, device::BufferView slot, device::Event& copied) {
  link_.device().annotate(*gathering_, layer, -1);
  link_.device().wait(*gathering_, copied);
  peers_->all_gather(link_.index(), *gathering_, slot.slice(0, slices.room()));
  link_.count_gathered(slices.received());
}

}  // namespace l2l::transfer
