#include "transfer/gradient_drain.h"

#include <utility>

#include "core/activity.h"

namespace l2l::transfer {

GradientDrain::GradientDrain(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                             device::BufferView squares, std::vector<GradientSlices> gradients, Failure& failure,
                             DeviceSums sums)
    : link_(link),
      store_(store),
      failure_(failure),
      squares_(squares),
      sums_(std::move(sums)),
      gradients_(std::move(gradients)),
      stream_(link.create_stream("d2h gradients")),
      ring_(link.device(), slots, /*consumers=*/1, device::WaitReason::gradients, failure),
      slot_layer_(slots.size()),
      completion_([this] { run(); }) {}

GradientDrain::~GradientDrain() { stop(); }

void GradientDrain::stop() {
  if (!completion_.joinable()) return;
  ring_.close();
  completion_.join();
  link_.quiesce(*stream_);
}

device::BufferView GradientDrain::acquire(LayerIndex layer, device::Stream& compute) {
  current_ = ring_.acquire(compute, device::WaitReason::gradients);
  slot_layer_[static_cast<std::size_t>(current_)] = layer;
  return ring_.view(current_).slice(0, drained_bytes(gradients_[static_cast<std::size_t>(layer)].bytes()));
}

void GradientDrain::run() {
  const ThreadActivity listed("gradient completion", link_.index());
  try {
    for (SlotRing::Slot slot; (slot = ring_.take(*stream_)) != SlotRing::kClosed;) {
      const LayerIndex layer = slot_layer_[static_cast<std::size_t>(slot)];
      const ActivitySpan span(Doing::acts, "a gradient", layer);
      link_.device().annotate(*stream_, layer, -1);
      sums_.peers != nullptr ? send_sums(slot, layer) : send(slot, layer);
    }
  } catch (...) {
    failure_.fail(named_exception("gradient completion " + std::to_string(link_.index())));
  }
}

void GradientDrain::send(SlotRing::Slot slot, LayerIndex layer) {
  eps::GradientBuffer gradients = store_.gradient_buffer(layer, link_.index());
  link_.to_host(Traffic::gradients, *stream_, {gradients.data(), gradients.bytes()},
                ring_.view(slot).slice(0, gradients.bytes()));
  link_.to_host(Traffic::results, *stream_, squares_,
                ring_.view(slot).slice(squares_offset(gradients.bytes()), sizeof(double)));
  ring_.release(slot, *stream_);
  link_.device().synchronize(*stream_);
  store_.push(layer, link_.index(), std::move(gradients), *reinterpret_cast<const double*>(squares_.data));
}

void GradientDrain::send_sums(SlotRing::Slot slot, LayerIndex layer) {
  const GradientSlices& slices = gradients_[static_cast<std::size_t>(layer)];
  const device::BufferView received = sums_.received.slice(0, slices.room());
  const device::BufferView sums = sums_.sums.slice(0, slices.sums());
  sums_.peers->all_to_all(link_.index(), *stream_, ring_.view(slot).slice(0, slices.room()), received);
  link_.count_exchanged(slices.received());
  ring_.release(slot, *stream_);
  sums_.add(*stream_, layer, received, sums);
  eps::GradientBuffer gradients = store_.gradient_buffer(layer, link_.index());
  const Bytes begin = static_cast<Bytes>(slices.begin(link_.index())) * size_of(DType::f32);
  if (const Bytes own = slices.brought(link_.index()); own > 0) {
    link_.to_host(Traffic::gradients, *stream_, {gradients.data() + begin, own}, sums.slice(0, own));
  }
  link_.device().synchronize(*stream_);
  store_.push(layer, link_.index(), std::move(gradients));
}

}  // namespace l2l::transfer
