#include "compiler/memory/search/cliques.h"

#include <algorithm>

namespace l2l::compiler::memory {
namespace {

constexpr std::uint64_t kMostSharedSteps = 50'000'000;

// One row of bits per block.
class AdjacencyBits {
 public:
  explicit AdjacencyBits(const Rows& neighbours)
      : words_((neighbours.count() + 63) / 64), bits_(words_ * neighbours.count(), 0) {
    for (std::size_t block = 0; block < neighbours.count(); ++block) {
      for (const Index other : neighbours[block]) bits_[block * words_ + other / 64] |= std::uint64_t{1} << other % 64;
    }
  }
  std::span<const std::uint64_t> row(Index block) const { return {bits_.data() + block * words_, words_}; }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

class Cliques {
 public:
  Cliques(const Rows& neighbours, std::span<const Bytes> sizes)
      : neighbours_(neighbours), sizes_(sizes), bits_(neighbours), near_(sizes.size(), 0), weight_(sizes.size(), 0) {}

  std::vector<Index> by_size(Index block) {
    for (const Index other : neighbours_[block]) weight_[other] = sizes_[other];
    return grow(block);
  }
  std::vector<Index> by_shared(Index block) {
    for (const Index other : neighbours_[block]) near_[other] = sizes_[other];
    for (const Index other : neighbours_[block]) {
      weight_[other] = near_[other];
      for (const Index third : neighbours_[other]) weight_[other] += near_[third];
    }
    for (const Index other : neighbours_[block]) near_[other] = 0;
    return grow(block);
  }
  std::uint64_t shared_steps() const {
    std::uint64_t steps = 0;
    for (std::size_t block = 0; block < sizes_.size(); ++block)
      steps += neighbours_[block].size() * neighbours_[block].size();
    return steps;
  }

 private:
  // Adds neighbours by descending weight_.
  std::vector<Index> grow(Index block) {
    std::vector<Index> order(neighbours_[block].begin(), neighbours_[block].end());
    std::sort(order.begin(), order.end(),
              [&](Index a, Index b) { return weight_[a] != weight_[b] ? weight_[a] > weight_[b] : a < b; });
    std::vector<Index> set{block};
    const std::span<const std::uint64_t> first = bits_.row(block);
    common_.assign(first.begin(), first.end());
    for (const Index next : order) {
      if ((common_[next / 64] >> next % 64 & 1) == 0) continue;
      set.push_back(next);
      const std::span<const std::uint64_t> row = bits_.row(next);
      for (std::size_t word = 0; word < common_.size(); ++word) common_[word] &= row[word];
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  const Rows& neighbours_;
  std::span<const Bytes> sizes_;
  const AdjacencyBits bits_;
  std::vector<std::uint64_t> common_;  // neighbours of the whole set
  std::vector<Bytes> near_, weight_;
};

}  // namespace

Rows heavy_cliques(const Rows& neighbours, std::span<const Bytes> sizes, const std::function<bool()>& stop) {
  Cliques cliques(neighbours, sizes);
  const bool shared = cliques.shared_steps() <= kMostSharedSteps;
  std::vector<std::vector<Index>> sets;
  for (Index block = 0; block < sizes.size() && !stop(); ++block) {
    sets.push_back(cliques.by_size(block));
    if (shared) sets.push_back(cliques.by_shared(block));
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  Rows rows;
  for (const std::vector<Index>& set : sets) {
    rows.values.insert(rows.values.end(), set.begin(), set.end());
    rows.close_row();
  }
  return rows;
}

}  // namespace l2l::compiler::memory
