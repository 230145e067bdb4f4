#include "eps/received_slots.h"

#include <algorithm>

namespace l2l::eps {
namespace {

// Of a group's shard, from all devices of the other ranks, in as many uses as it may have.
Bytes received_bytes(const ModelLayout& layout, GroupIndex group, const StoreOptions& options) {
  const GroupSpec& spec = layout.groups[static_cast<std::size_t>(group)];
  if (spec.gradient_elements() == 0) return 0;
  const std::vector<ShardCut> cuts = shard_cuts(spec, options.rank.count, options.whole_tensors());
  const auto own = static_cast<std::size_t>(options.rank.index);
  const std::int64_t shard = cuts[own + 1].gradient - cuts[own].gradient;
  std::int64_t from_a_device = 0;
  if (layout.exchange) {
    from_a_device = shard * (1 + layout.exchange->further_uses);
  } else {
    for (const LayerSpec& layer : layout.layers) {
      for (const LayerPart& part : layer.parts) {
        if (part.group != group) continue;
        const std::int64_t end = part.begin + layout.gradient_elements_of(part);
        const std::int64_t begin = std::max(part.begin, cuts[own].gradient);
        from_a_device += std::max<std::int64_t>(std::min(end, cuts[own + 1].gradient) - begin, 0);
      }
    }
  }
  const int devices = (options.rank.count - 1) * options.devices;
  return static_cast<Bytes>(from_a_device * devices) * size_of(options.gradients);
}

// Of each slot.
std::vector<Bytes> sizes_of(const ModelLayout& layout, const StoreOptions& options) {
  if (options.rank.count == 1) return {};
  std::vector<Bytes> sizes;
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    sizes.push_back(received_bytes(layout, static_cast<GroupIndex>(i), options));
  }
  if (options.held()) return sizes;
  const Bytes largest = sizes.empty() ? 0 : *std::ranges::max_element(sizes);
  return std::vector<Bytes>(static_cast<std::size_t>(options.staging_slots / options.devices), largest);
}

}  // namespace

Bytes ReceivedSlots::bytes(const ModelLayout& layout, const StoreOptions& options) {
  Bytes total = 0;
  for (const Bytes size : sizes_of(layout, options)) total += size;
  return total;
}

ReceivedSlots::ReceivedSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory)
    : per_group_(options.held()) {
  for (const Bytes size : sizes_of(layout, options)) {
    slots_.push_back({size > 0 ? memory.allocate(size, "gradients from other ranks") : nullptr, false});
  }
  free_ = slots_.size();
}

std::optional<int> ReceivedSlots::take(GroupIndex group) {
  const std::size_t first = per_group_ ? static_cast<std::size_t>(group) : 0;
  const std::size_t end = per_group_ ? first + 1 : slots_.size();
  for (std::size_t i = first; i < end; ++i) {
    if (slots_[i].taken) continue;
    slots_[i].taken = true;
    --free_;
    return static_cast<int>(i);
  }
  return std::nullopt;
}

void ReceivedSlots::release(int slot) {
  slots_[static_cast<std::size_t>(slot)].taken = false;
  ++free_;
}

}  // namespace l2l::eps
