#include "transfer/gradient_drain.h"

#include "core/activity.h"

namespace l2l::transfer {

GradientDrain::GradientDrain(Link& link, eps::ParameterStore& store, std::vector<device::BufferView> slots,
                             device::BufferView squares, std::vector<Bytes> gradient_bytes, Failure& failure)
    : link_(link),
      store_(store),
      failure_(failure),
      squares_(squares),
      gradient_bytes_(std::move(gradient_bytes)),
      stream_(link.create_stream("d2h gradients")),
      ring_(link.device(), slots, /*consumers=*/1, device::WaitReason::gradients, failure),
      slot_layer_(slots.size()),
      completion_([this] { run(); }) {}

GradientDrain::~GradientDrain() {
  ring_.close();
  completion_.join();
  link_.quiesce(*stream_);
}

device::BufferView GradientDrain::acquire(LayerIndex layer, device::Stream& compute) {
  current_ = ring_.acquire(compute, device::WaitReason::gradients);
  slot_layer_[static_cast<std::size_t>(current_)] = layer;
  return ring_.view(current_).slice(0, drained_bytes(gradient_bytes_[static_cast<std::size_t>(layer)]));
}

void GradientDrain::run() {
  const ThreadActivity listed("gradient completion", link_.index());
  try {
    for (SlotRing::Slot slot; (slot = ring_.take(*stream_)) != SlotRing::kClosed;) {
      const LayerIndex layer = slot_layer_[static_cast<std::size_t>(slot)];
      const ActivitySpan span(Doing::acts, "a gradient", layer);
      eps::GradientBuffer gradients = store_.gradient_buffer(layer, link_.index());
      link_.device().annotate(*stream_, layer, -1);
      link_.to_host(Traffic::gradients, *stream_, {gradients.data(), gradients.bytes()},
                    ring_.view(slot).slice(0, gradients.bytes()));
      link_.to_host(Traffic::results, *stream_, squares_,
                    ring_.view(slot).slice(squares_offset(gradients.bytes()), sizeof(double)));
      ring_.release(slot, *stream_);
      link_.device().synchronize(*stream_);
      store_.push(layer, link_.index(), std::move(gradients), *reinterpret_cast<const double*>(squares_.data));
    }
  } catch (...) {
    failure_.fail(named_exception("gradient completion " + std::to_string(link_.index())));
  }
}

}  // namespace l2l::transfer
