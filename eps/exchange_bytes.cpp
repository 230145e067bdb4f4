#include "eps/exchange_bytes.h"

#include <algorithm>

namespace l2l::eps {
namespace {

// A rank's shard, of so many units of that size, goes to each of the others, and theirs come here.
collectives::Traffic all_gathered(const std::vector<ShardCut>& cuts, std::int64_t ShardCut::*unit, int rank,
                                  Bytes size) {
  const auto own = static_cast<std::size_t>(rank);
  const auto mine = static_cast<Bytes>(cuts[own + 1].*unit - cuts[own].*unit);
  const auto all = static_cast<Bytes>(cuts.back().*unit - cuts.front().*unit);
  return {(cuts.size() - 2) * mine * size, (all - mine) * size};
}

}  // namespace

ExchangeBytes exchange_bytes(const ModelLayout& layout, GroupIndex group, const StoreOptions& options) {
  const GroupSpec& spec = layout.groups[static_cast<std::size_t>(group)];
  ExchangeBytes bytes;
  if (options.rank.count == 1 || spec.gradient_elements() == 0 || layout.uses(group) == 0) return bytes;
  const std::vector<ShardCut> cuts = shard_cuts(spec, options.rank.count, options.whole_tensors());
  const ShardCut& begin = cuts[static_cast<std::size_t>(options.rank.index)];
  const ShardCut& end = cuts[static_cast<std::size_t>(options.rank.index) + 1];
  std::int64_t all = 0, own = 0;  // elements of a device's
  for (const LayerSpec& layer : layout.layers) {
    for (const LayerPart& part : layer.parts) {
      if (part.group != group) continue;
      const std::int64_t last = part.begin + layout.gradient_elements_of(part);
      all += last - part.begin;
      own += std::max<std::int64_t>(std::min(last, end.gradient) - std::max(part.begin, begin.gradient), 0);
    }
  }
  const Bytes element = static_cast<Bytes>(options.sent_gradients()) * size_of(options.sent_type());
  bytes.gradients = {static_cast<Bytes>(all - own) * element,
                     static_cast<Bytes>((options.rank.count - 1) * own) * element};
  bytes.squares = all_gathered(cuts, &ShardCut::block, options.rank.index, sizeof(double));
  if (!options.shards_wire_of(spec)) {
    bytes.wire = all_gathered(cuts, &ShardCut::wire, options.rank.index, size_of(options.wire));
  }
  return bytes;
}

collectives::Traffic visit_bytes(const ModelLayout& layout, LayerIndex layer, const StoreOptions& options) {
  collectives::Traffic bytes;
  for (const LayerPart& part : layout.layers[static_cast<std::size_t>(layer)].parts) {
    const GroupSpec& group = layout.groups[static_cast<std::size_t>(part.group)];
    if (!options.shards_wire_of(group)) continue;
    const std::vector<ShardCut> cuts = shard_cuts(group, options.rank.count, options.whole_tensors());
    const auto rank = static_cast<std::size_t>(options.rank.index);
    const std::int64_t all = layout.elements_of(part), end = part.begin + all;
    const std::int64_t own =
        std::max<std::int64_t>(std::min(end, cuts[rank + 1].wire) - std::max(part.begin, cuts[rank].wire), 0);
    bytes.sent += static_cast<Bytes>((options.rank.count - 1) * own) * size_of(options.wire);
    bytes.received += static_cast<Bytes>(all - own) * size_of(options.wire);
  }
  return bytes;
}

}  // namespace l2l::eps
