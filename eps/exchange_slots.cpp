#include "eps/exchange_slots.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "eps/shards.h"

namespace l2l::eps {
namespace {

std::size_t buffers(const StoreOptions& options) {
  return static_cast<std::size_t>(options.staging_slots / options.pushed_gradients());
}

// Of all uses together; where layers are exchanged, of as many as the group may have.
std::int64_t most_elements(const ModelLayout& layout, std::span<const ElementRange> uses, ElementRange range) {
  if (layout.exchange) return range.count() * (1 + layout.exchange->further_uses);
  return elements_of_uses(uses, range);
}

// Of each slot.
std::vector<Bytes> received_sizes(const ModelLayout& layout, const StoreOptions& options) {
  if (options.rank.count == 1) return {};
  const int ranks = options.sums_devices() ? options.rank.count : options.rank.count - 1;
  const Bytes element = static_cast<Bytes>(ranks * options.sent_gradients()) * size_of(options.sent_type());
  const std::vector<std::vector<ElementRange>> uses = gradients_of_uses(layout);
  std::vector<Bytes> sizes;
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const std::vector<ShardCut> cuts = shard_cuts(layout.groups[i], options.rank.count, options.whole_tensors());
    const ElementRange own = gradients_of_rank(cuts, options.rank.index);
    sizes.push_back(static_cast<Bytes>(most_elements(layout, uses[i], own)) * element);
  }
  if (options.held()) return sizes;
  const Bytes largest = sizes.empty() ? 0 : *std::ranges::max_element(sizes);
  return std::vector<Bytes>(buffers(options), largest);
}

std::vector<Bytes> sum_sizes(const ModelLayout& layout, const StoreOptions& options) {
  if (!options.sums_devices()) return {};
  const std::vector<std::vector<ElementRange>> uses = gradients_of_uses(layout);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    most = std::max(most, most_elements(layout, uses[i], {0, layout.groups[i].gradient_elements()}));
  }
  return std::vector<Bytes>(buffers(options), static_cast<Bytes>(most) * size_of(options.sent_type()));
}

Bytes total(const std::vector<Bytes>& sizes) { return std::accumulate(sizes.begin(), sizes.end(), Bytes{0}); }

}  // namespace

SlotPool::SlotPool(const std::vector<Bytes>& sizes, bool per_group, MemorySource& memory, std::string_view purpose)
    : per_group_(per_group), free_(sizes.size()) {
  for (const Bytes size : sizes) slots_.push_back({size > 0 ? memory.allocate(size, purpose) : nullptr, false});
}

std::optional<int> SlotPool::take(GroupIndex group) {
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

void SlotPool::release(int slot) {
  slots_[static_cast<std::size_t>(slot)].taken = false;
  ++free_;
}

ExchangeSlots::Total ExchangeSlots::bytes(const ModelLayout& layout, const StoreOptions& options) {
  return {total(received_sizes(layout, options)), total(sum_sizes(layout, options))};
}

ExchangeSlots::ExchangeSlots(const ModelLayout& layout, const StoreOptions& options, MemorySource& memory)
    : received(received_sizes(layout, options), options.held(), memory, "gradients from other ranks"),
      sums(sum_sizes(layout, options), /*per_group=*/false, memory, "sums over devices") {}

}  // namespace l2l::eps
