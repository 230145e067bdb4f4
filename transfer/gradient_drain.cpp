#include "transfer/gradient_drain.h"

#include <utility>

#include "core/activity.h"

namespace l2l::transfer {

GradientDrain::GradientDrain(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                             device::BufferView squares, std::vector<GradientSlices> gradients, Failure& failure,
                             DeviceSums sums, DrainShares shares)
    : link_(link),
      store_(store),
      failure_(failure),
      sums_(std::move(sums)),
      shares_(shares),
      gradients_(std::move(gradients)),
      stream_(link.create_stream("d2h gradients")),
      ring_(link.device(), slots, /*consumers=*/1, device::WaitReason::gradients, failure),
      slot_layer_(slots.size()),
      registration_(failure.on_failure([this] {
        { const std::lock_guard lock(mutex_); }
        changed_.notify_all();
      })) {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    copies_[i].squares = squares.slice(i * sizeof(double), sizeof(double));
    copies_[i].done = link.device().create_event();
  }
  sender_ = std::thread([this] { send_all(); });
  try {
    completion_ = std::thread([this] { push_all(); });
  } catch (...) {
    ring_.close();
    sender_.join();
    throw;
  }
}

GradientDrain::~GradientDrain() { stop(); }

void GradientDrain::stop() {
  if (!sender_.joinable()) return;
  ring_.close();
  sender_.join();
  completion_.join();
  link_.quiesce(*stream_);
}

device::BufferView GradientDrain::acquire(LayerIndex layer, device::Stream& compute) {
  current_ = ring_.acquire(compute, device::WaitReason::gradients);
  slot_layer_[static_cast<std::size_t>(current_)] = layer;
  return ring_.view(current_).slice(0, drained_bytes(gradients_[static_cast<std::size_t>(layer)].bytes()));
}

void GradientDrain::send_all() {
  const ThreadActivity listed("gradient sender", link_.index());
  try {
    for (SlotRing::Slot slot; (slot = ring_.take(*stream_)) != SlotRing::kClosed;) {
      Copy& copy = next_free();
      copy.layer = slot_layer_[static_cast<std::size_t>(slot)];
      const ActivitySpan span(Doing::acts, "the copy of a gradient", copy.layer);
      link_.device().annotate(*stream_, copy.layer, -1);
      if (shares_.group != nullptr) {
        send_share(slot, copy.layer);
      } else {
        sums_.peers != nullptr ? send_sums(slot, copy) : send(slot, copy);
      }
      link_.device().record(*copy.done, *stream_);
      count(enqueued_);
    }
  } catch (...) {
    failure_.fail(named_exception("gradient sender " + std::to_string(link_.index())));
  }
  {
    const std::lock_guard lock(mutex_);
    sent_all_ = true;
  }
  changed_.notify_all();
}

void GradientDrain::send(SlotRing::Slot slot, Copy& copy) {
  copy.gradients = store_.gradient_buffer(copy.layer, link_.contributor());
  const Bytes bytes = copy.gradients.bytes();
  link_.to_host(Traffic::gradients, *stream_, {copy.gradients.data(), bytes}, ring_.view(slot).slice(0, bytes));
  link_.to_host(Traffic::results, *stream_, copy.squares,
                ring_.view(slot).slice(squares_offset(bytes), copy.squares.size));
  ring_.release(slot, *stream_);
}

void GradientDrain::send_sums(SlotRing::Slot slot, Copy& copy) {
  const GradientSlices& slices = gradients_[static_cast<std::size_t>(copy.layer)];
  const device::BufferView received = sums_.received.slice(0, slices.room());
  const device::BufferView sums = sums_.sums.slice(0, slices.sums());
  sums_.peers->all_to_all(link_.index(), *stream_, ring_.view(slot).slice(0, slices.room()), received);
  link_.count_exchanged(slices.received());
  ring_.release(slot, *stream_);
  sums_.add(*stream_, copy.layer, received, sums);
  copy.gradients = store_.gradient_buffer(copy.layer, link_.contributor());
  const Bytes begin = static_cast<Bytes>(slices.begin(link_.index())) * size_of(DType::f32);
  if (const Bytes own = slices.brought(link_.index()); own > 0) {
    link_.to_host(Traffic::gradients, *stream_, {copy.gradients.data() + begin, own}, sums.slice(0, own));
  }
}

void GradientDrain::send_share(SlotRing::Slot slot, LayerIndex layer) {
  const LayerShares& shares = *shares_.shares;
  std::byte* const whole = shares_.group->open(layer);
  const device::BufferView own = ring_.view(slot);
  for (const SharedBlock& block : shares.of(layer)) {
    if (!shares.brings(block)) continue;
    link_.rows_to_host(Traffic::gradients, *stream_,
                       {.destination = whole + static_cast<Bytes>(block.whole) * shares.gradient,
                        .destination_stride = static_cast<Bytes>(block.whole_stride) * shares.gradient,
                        .source = own.data + static_cast<Bytes>(block.own) * shares.gradient,
                        .source_stride = static_cast<Bytes>(block.own_stride) * shares.gradient,
                        .row = static_cast<Bytes>(block.columns) * shares.gradient,
                        .rows = static_cast<Bytes>(block.rows)});
  }
  ring_.release(slot, *stream_);
}

void GradientDrain::push(Copy& copy) {
  if (shares_.group != nullptr) return shares_.group->close(copy.layer);
  std::optional<double> squares;
  if (sums_.peers == nullptr) squares = *reinterpret_cast<const double*>(copy.squares.data);
  store_.push(copy.layer, link_.contributor(), std::move(copy.gradients), squares);
}

// Waits until the completion thread has pushed the copy before the last.
GradientDrain::Copy& GradientDrain::next_free() {
  std::unique_lock lock(mutex_);
  const ActivitySpan span(Doing::rests, "the wait for a copy");
  changed_.wait(lock, [&] { return enqueued_ - pushed_ < copies_.size() || failure_.failed(); });
  failure_.rethrow();
  return copies_[enqueued_ % copies_.size()];
}

void GradientDrain::push_all() {
  const ThreadActivity listed("gradient completion", link_.index());
  try {
    while (Copy* const copy = next_enqueued()) {
      const ActivitySpan span(Doing::acts, "a gradient", copy->layer);
      link_.device().synchronize(*copy->done);
      push(*copy);
      count(pushed_);
    }
  } catch (...) {
    failure_.fail(named_exception("gradient completion " + std::to_string(link_.index())));
  }
}

// Null: there will be none.
GradientDrain::Copy* GradientDrain::next_enqueued() {
  std::unique_lock lock(mutex_);
  const ActivitySpan span(Doing::rests, "the wait for a gradient");
  changed_.wait(lock, [&] { return enqueued_ > pushed_ || sent_all_ || failure_.failed(); });
  if (failure_.failed() || enqueued_ == pushed_) return nullptr;
  return &copies_[pushed_ % copies_.size()];
}

void GradientDrain::count(std::uint64_t& copies) {
  {
    const std::lock_guard lock(mutex_);
    ++copies;
  }
  changed_.notify_all();
}

}  // namespace l2l::transfer
