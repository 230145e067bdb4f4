#include "transfer/weight_stream.h"

#include "core/fault_point.h"

namespace l2l::transfer {

WeightStream::WeightStream(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                           std::vector<Bytes> wire_bytes, Failure& failure)
    : link_(link),
      store_(store),
      failure_(failure),
      wire_bytes_(std::move(wire_bytes)),
      stream_(link.create_stream("h2d weights")),
      asked_(link.device().create_event()),
      ring_(link.device(), slots, /*consumers=*/1, device::WaitReason::weights, failure),
      slot_layer_(slots.size()),
      registration_(failure.on_failure([this] {
        { const std::lock_guard lock(mutex_); }
        changed_.notify_all();
      })),
      feeder_([this] { run(); }) {}

WeightStream::~WeightStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  feeder_.join();
  link_.quiesce(*stream_);
}

void WeightStream::begin_pass(std::span<const LayerIndex> visits, eps::Version version) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !has_pass_ || failure_.failed(); });
    failure_.rethrow();
    pass_ = {visits, version};
    has_pass_ = true;
  }
  changed_.notify_all();
}

WeightStream::Visit WeightStream::next(device::Stream& compute) {
  if (fault_point("transfer.no_prefetch")) ask(compute);
  const SlotRing::Slot slot = ring_.take(compute);
  const auto layer = static_cast<std::size_t>(slot_layer_[static_cast<std::size_t>(slot)]);
  return {slot, ring_.view(slot).slice(0, wire_bytes_[layer])};
}

void WeightStream::run() {
  try {
    Pass pass;
    while (wait_for_pass(pass)) {
      for (const LayerIndex layer : pass.visits) fetch(layer, pass.version);
    }
  } catch (...) {
    failure_.fail(std::current_exception());
  }
}

bool WeightStream::wait_for_pass(Pass& pass) {
  std::unique_lock lock(mutex_);
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

// The lease lives exactly as long as the copy: an update of the layer waits for it.
void WeightStream::fetch(LayerIndex layer, eps::Version version) {
  if (fault_point("transfer.no_prefetch")) wait_until_asked();
  const SlotRing::Slot slot = ring_.acquire(*stream_);
  std::chrono::nanoseconds waited{0};
  const eps::WeightLease lease = store_.pull(layer, version, &waited);
  update_stall_ns_ += waited.count();
  slot_layer_[static_cast<std::size_t>(slot)] = layer;
  link_.device().annotate(*stream_, layer, -1);
  for (const eps::WirePart& part : lease.parts()) {
    link_.to_device(Traffic::weights, *stream_, ring_.view(slot).slice(part.offset, part.bytes),
                    {const_cast<std::byte*>(part.data), part.bytes});
  }
  ring_.filled(slot, *stream_);
  ring_.synchronize_filled(slot);
}

}  // namespace l2l::transfer
