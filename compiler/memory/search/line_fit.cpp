#include "compiler/memory/search/line_fit.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

namespace l2l::compiler::memory {
namespace {

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kPlacedPerQuestion = 64;

// How high the plan is, by time: parts of equal height follow each other, and no two of equal height touch.
class Levels {
 public:
  struct Part {
    Index begin, end;  // sections
    Bytes height;
  };

  explicit Levels(std::size_t sections) : height_(sections + 1, kNoPart), end_of_(sections + 1), before_(sections + 1) {
    add({0, static_cast<Index>(sections), 0});
  }

  // The lowest, of equals the earliest. It must be raised next.
  Part lowest() {
    while (true) {
      const auto [height, begin] = waiting_.top();
      waiting_.pop();
      if (height_[begin] == height) return part_at(begin);  // else it has risen or was joined to another since
    }
  }

  // Raises [begin, end) of a part.
  void raise(const Part& part, Index begin, Index end, Bytes height) {
    height_[part.begin] = kNoPart;
    if (part.begin < begin) add({part.begin, begin, part.height});
    if (end < part.end) add({end, part.end, part.height});
    Part raised{begin, end, height};
    if (begin > 0 && height_[before_[begin]] == height) {
      raised.begin = before_[begin];
      height_[raised.begin] = kNoPart;
    }
    if (end < last() && height_[end] == height) {
      raised.end = end_of_[end];
      height_[end] = kNoPart;
    }
    add(raised);
  }

  // Raises the whole part to the lower one of its neighbours.
  void join(const Part& part) {
    const Bytes before = part.begin > 0 ? height_[before_[part.begin]] : kNoPart;
    const Bytes after = part.end < last() ? height_[part.end] : kNoPart;
    raise(part, part.begin, part.end, std::min(before, after));
  }

 private:
  static constexpr Bytes kNoPart = ~Bytes{0};

  Index last() const { return static_cast<Index>(height_.size() - 1); }
  Part part_at(Index begin) const { return {begin, end_of_[begin], height_[begin]}; }
  void add(const Part& part) {
    height_[part.begin] = part.height;
    end_of_[part.begin] = part.end;
    before_[part.end] = part.begin;
    waiting_.push({part.height, part.begin});
  }

  // By section: of the part that begins there, its height and end; the begin of the part that ends there.
  std::vector<Bytes> height_;
  std::vector<Index> end_of_, before_;
  using Waiting = std::pair<Bytes, Index>;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
};

// The blocks that are not placed yet, in a tree: of those below a node, the least rank in the order, and the earliest
// end. Blocks are leaves, by number, which is by begin.
class Unplaced {
 public:
  Unplaced(std::span<const Index> order, const std::vector<Index>& ends)
      : leaves_(std::bit_ceil(order.size())), nodes_(2 * leaves_) {
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) nodes_[leaves_ + order[rank]] = {rank, ends[order[rank]]};
    for (std::size_t node = leaves_ - 1; node > 0; --node) nodes_[node] = least_of_children(node);
  }

  // The least rank of the blocks from number `first` on that end by `end`; kNobody: there is none.
  std::uint32_t first_within(Index first, Index end) const {
    std::uint32_t best = kNobody;
    // The leaf, then all to its right: from a right child up to the first left one, from there over to its sibling.
    for (std::size_t node = first < leaves_ ? leaves_ + first : 0; node > 0; ++node) {
      search(node, end, best);
      while (node % 2 == 1) node /= 2;
      if (node == 0) break;
    }
    return best;
  }

  void remove(Index block) {
    std::size_t node = leaves_ + block;
    nodes_[node] = {};
    while ((node /= 2) > 0) nodes_[node] = least_of_children(node);
  }

 private:
  struct Node {
    std::uint32_t rank = kNobody;
    Index end = std::numeric_limits<Index>::max();
  };

  Node least_of_children(std::size_t node) const {
    const Node &a = nodes_[2 * node], &b = nodes_[2 * node + 1];
    return {std::min(a.rank, b.rank), std::min(a.end, b.end)};
  }

  void search(std::size_t node, Index end, std::uint32_t& best) const {
    if (nodes_[node].rank >= best || nodes_[node].end > end) return;
    if (node >= leaves_) {
      best = nodes_[node].rank;
      return;
    }
    const std::size_t sooner = 2 * node + (nodes_[2 * node].rank > nodes_[2 * node + 1].rank ? 1 : 0);
    search(sooner, end, best);
    search(sooner ^ 1, end, best);
  }

  const std::size_t leaves_;
  std::vector<Node> nodes_;  // the children of node i are 2 i and 2 i + 1; the root is 1
};

}  // namespace

LineFit::LineFit(const Blocks& blocks) : blocks_(blocks), line_(make_timeline(blocks)) {
  first_at_.resize(line_.sections);
  Index first = 0;
  for (Index section = 0; section < line_.sections; ++section) {
    while (first < blocks.count() && line_.begin[first] < section) ++first;
    first_at_[section] = first;
  }
}

std::optional<Placement> LineFit::place(std::span<const Index> order, Bytes highest,
                                        const std::function<bool()>& stop) const {
  Placement found{std::vector<Bytes>(order.size(), 0), 0};
  if (order.empty()) return found;
  Levels levels(line_.sections);
  Unplaced unplaced(order, line_.end);
  for (std::size_t placed = 0; placed < order.size();) {
    const Levels::Part lowest = levels.lowest();
    const std::uint32_t rank = unplaced.first_within(first_at_[lowest.begin], lowest.end);
    if (rank == kNobody) {
      levels.join(lowest);
      continue;
    }
    const Index block = order[rank];
    const Bytes end = lowest.height + blocks_.size(block);
    found.offsets[block] = lowest.height;
    found.footprint = std::max(found.footprint, end);
    if (end > highest || (placed++ % kPlacedPerQuestion == 0 && stop())) return std::nullopt;
    unplaced.remove(block);
    levels.raise(lowest, line_.begin[block], line_.end[block], end);
  }
  return found;
}

}  // namespace l2l::compiler::memory
