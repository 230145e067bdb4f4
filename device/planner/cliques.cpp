#include "device/planner/cliques.h"

#include <algorithm>

namespace l2l::device::planner {
namespace {

class Cliques {
 public:
  Cliques(const Rows& meetings, std::span<const Bytes> sizes)
      : meetings_(meetings), sizes_(sizes), seen_(sizes.size(), 0), weight_(sizes.size(), 0) {}

  // Of the neighbours of `item`, in the order of falling weight_.
  std::vector<Index> by_size(Index item) {
    for (const Index other : meetings_[item]) weight_[other] = sizes_[other];
    return grow(item);
  }
  std::vector<Index> by_shared(Index item) {
    for (const Index other : meetings_[item]) seen_[other] = sizes_[other];
    for (const Index other : meetings_[item]) {
      weight_[other] = seen_[other];
      for (const Index third : meetings_[other]) weight_[other] += seen_[third];
    }
    for (const Index other : meetings_[item]) seen_[other] = 0;
    return grow(item);
  }

 private:
  std::vector<Index> grow(Index item) {
    std::vector<Index> set{item};
    std::vector<Index> left(meetings_[item].begin(), meetings_[item].end());
    while (!left.empty()) {
      const auto heaviest = std::max_element(left.begin(), left.end(), [&](Index a, Index b) {
        return weight_[a] != weight_[b] ? weight_[a] < weight_[b] : a > b;
      });
      const Index next = *heaviest;
      set.push_back(next);
      const std::span<const Index> meets = meetings_[next];
      std::vector<Index> common;
      std::set_intersection(left.begin(), left.end(), meets.begin(), meets.end(), std::back_inserter(common));
      left = std::move(common);
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  const Rows& meetings_;
  std::span<const Bytes> sizes_;
  std::vector<Bytes> seen_, weight_;
};

}  // namespace

Rows heavy_cliques(const Rows& meetings, std::span<const Bytes> sizes) {
  Cliques cliques(meetings, sizes);
  std::vector<std::vector<Index>> sets;
  for (Index item = 0; item < sizes.size(); ++item) {
    sets.push_back(cliques.by_size(item));
    sets.push_back(cliques.by_shared(item));
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

}  // namespace l2l::device::planner
