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
  const std::int64_t all = elements_of_uses(layout, group, {0, spec.gradient_elements()});
  const std::int64_t own = elements_of_uses(layout, group, gradients_of_rank(cuts, options.rank.index));
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
    const ElementRange all{part.begin, part.begin + layout.elements_of(part)};
    const std::int64_t own = all.common(wire_of_rank(cuts, options.rank.index)).count();
    bytes.sent += static_cast<Bytes>((options.rank.count - 1) * own) * size_of(options.wire);
    bytes.received += static_cast<Bytes>(all.count() - own) * size_of(options.wire);
  }
  return bytes;
}

}  // namespace l2l::eps
