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

std::vector<ExchangeBytes> exchange_bytes(const GroupSpec& group, std::span<const ElementRange> uses,
                                          const StoreOptions& options) {
  const int ranks = options.rank.count;
  std::vector<ExchangeBytes> bytes(static_cast<std::size_t>(ranks));
  if (ranks == 1 || group.gradient_elements() == 0 || uses.empty()) return bytes;
  const std::vector<ShardCut> cuts = shard_cuts(group, ranks, options.whole_tensors());
  const std::int64_t all = elements_of_uses(uses, {0, group.gradient_elements()});
  const Bytes element = static_cast<Bytes>(options.sent_gradients()) * size_of(options.sent_type());
  for (int rank = 0; rank < ranks; ++rank) {
    ExchangeBytes& its = bytes[static_cast<std::size_t>(rank)];
    const std::int64_t own = elements_of_uses(uses, gradients_of_rank(cuts, rank));
    its.gradients = {static_cast<Bytes>(all - own) * element, static_cast<Bytes>((ranks - 1) * own) * element};
    its.squares = all_gathered(cuts, &ShardCut::block, rank, sizeof(double));
    if (!options.shards_wire_of(group)) its.wire = all_gathered(cuts, &ShardCut::wire, rank, size_of(options.wire));
  }
  return bytes;
}

std::vector<collectives::Traffic> visit_bytes(const ModelLayout& layout, LayerIndex layer,
                                              const StoreOptions& options) {
  const int ranks = options.rank.count;
  std::vector<collectives::Traffic> bytes(static_cast<std::size_t>(ranks));
  for (const LayerPart& part : layout.layers[static_cast<std::size_t>(layer)].parts) {
    const GroupSpec& group = layout.groups[static_cast<std::size_t>(part.group)];
    if (!options.shards_wire_of(group)) continue;
    const std::vector<ShardCut> cuts = shard_cuts(group, ranks, options.whole_tensors());
    const ElementRange all{part.begin, part.begin + layout.elements_of(part)};
    for (int rank = 0; rank < ranks; ++rank) {
      collectives::Traffic& its = bytes[static_cast<std::size_t>(rank)];
      const std::int64_t own = all.common(wire_of_rank(cuts, rank)).count();
      its.sent += static_cast<Bytes>((ranks - 1) * own) * size_of(options.wire);
      its.received += static_cast<Bytes>(all.count() - own) * size_of(options.wire);
    }
  }
  return bytes;
}

}  // namespace l2l::eps
