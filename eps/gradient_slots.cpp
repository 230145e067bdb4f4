#include "eps/gradient_slots.h"

#include <algorithm>

namespace l2l::eps {
namespace {

int pool_size(const ModelLayout& layout, const StoreOptions& options) {
  const int further_uses = layout.exchange ? layout.exchange->further_uses : layout.further_uses();
  return options.staging_slots + options.pushed_gradients() * further_uses;
}

Bytes slot_bytes(std::int64_t elements, const StoreOptions& options) {
  return static_cast<Bytes>(elements) * size_of(options.pushed_type());
}

std::int64_t held_elements(const ModelLayout& layout, std::size_t layer) {
  return layout.exchange ? layout.largest_gradient() : layout.gradient_elements(static_cast<LayerIndex>(layer));
}

}  // namespace

Bytes GradientSlots::bytes(const ModelLayout& layout, const StoreOptions& options) {
  if (!options.holds_gradients()) {
    return static_cast<Bytes>(pool_size(layout, options)) * slot_bytes(layout.largest_gradient(), options);
  }
  Bytes total = 0;
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    total += static_cast<Bytes>(options.pushed_gradients()) * slot_bytes(held_elements(layout, i), options);
  }
  return total;
}

GradientSlots::GradientSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory)
    : per_layer_(options.holds_gradients()), devices_(static_cast<std::size_t>(options.pushed_gradients())) {
  const auto add = [&](std::int64_t elements, const std::string& purpose) {
    const Bytes bytes = slot_bytes(elements, options);
    slots_.push_back({bytes > 0 ? memory.allocate(bytes, purpose) : nullptr, 0});
  };
  if (!options.holds_gradients()) {
    const int count = pool_size(layout, options);
    for (int i = 0; i < count; ++i) add(layout.largest_gradient(), "gradient staging");
    return;
  }
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    for (int device = 0; device < options.pushed_gradients(); ++device) {
      add(held_elements(layout, i), "held gradients of " + layout.layers[i].name);
    }
  }
}

std::optional<int> GradientSlots::take(LayerIndex layer, int device) {
  const auto of = static_cast<std::size_t>(device);
  const std::size_t own = static_cast<std::size_t>(layer) * devices_ + of;
  const std::size_t first = per_layer_ ? own : of * slots_.size() / devices_;
  const std::size_t end = per_layer_ ? own + 1 : (of + 1) * slots_.size() / devices_;
  for (std::size_t i = first; i < end; ++i) {
    if (slots_[i].references > 0) continue;
    slots_[i].references = 1;
    return static_cast<int>(i);
  }
  return std::nullopt;
}

void GradientSlots::share(int slot, int references) { slots_[static_cast<std::size_t>(slot)].references = references; }

void GradientSlots::release(int slot) { --slots_[static_cast<std::size_t>(slot)].references; }

}  // namespace l2l::eps
