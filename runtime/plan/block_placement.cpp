#include "runtime/plan/block_placement.h"

#include <algorithm>
#include <numeric>

namespace l2l::runtime {

std::string_view name_of(StashPlace place) {
  if (place == StashPlace::none) return "none";
  return place == StashPlace::host ? "host" : "device";
}

int count_stashes(const std::vector<BlockPlacement>& placements, StashPlace place) {
  return static_cast<int>(std::count_if(placements.begin(), placements.end(),
                                        [&](const BlockPlacement& placement) { return placement.stash == place; }));
}

int count_staying(const std::vector<BlockPlacement>& placements) {
  return static_cast<int>(std::count_if(placements.begin(), placements.end(),
                                        [](const BlockPlacement& placement) { return placement.weights_stay; }));
}

// The next one is of the kind that is furthest behind its share.
std::vector<std::size_t> interleaved(const std::vector<std::size_t>& counts) {
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  std::vector<std::size_t> row, placed(counts.size());
  for (std::size_t i = 0; i < all; ++i) {
    std::size_t next = counts.size();
    std::int64_t furthest = 0;  // times `all`
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      if (placed[kind] == counts[kind]) continue;
      const std::int64_t behind =
          static_cast<std::int64_t>(counts[kind] * (i + 1)) - static_cast<std::int64_t>(placed[kind] * all);
      if (next == counts.size() || behind > furthest) next = kind, furthest = behind;
    }
    ++placed[next];
    row.push_back(next);
  }
  return row;
}

// 1 for `chosen` of `all` blocks, 0 for the others.
static std::vector<std::size_t> spread(int all, int chosen) {
  return interleaved({static_cast<std::size_t>(all - chosen), static_cast<std::size_t>(chosen)});
}

std::vector<BlockPlacement> split_stashes(int blocks, int on_device) {
  std::vector<BlockPlacement> placements;
  for (const std::size_t device : spread(blocks, on_device)) {
    placements.push_back({.stash = device == 1 ? StashPlace::device : StashPlace::host});
  }
  return placements;
}

void keep_weights(std::vector<BlockPlacement>& placements, std::pair<int, int> blocks, int staying) {
  const auto [first, last] = blocks;
  const int count = std::max(0, last - first + 1);
  auto placement = placements.begin() + first - 1;
  for (const std::size_t stays : spread(count, std::min(count, staying))) (placement++)->weights_stay = stays == 1;
}

}  // namespace l2l::runtime
