#include "compiler/memory/flow.h"

#include <algorithm>

namespace l2l::compiler::memory {

void Flow::add_edge(Node from, Node to, Amount capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<std::uint32_t>(edges_.size() - 1);
  edges_.push_back({from, first_[to], 0});
  first_[to] = static_cast<std::uint32_t>(edges_.size() - 1);
}

Flow::Amount Flow::run(Node source, Node sink) {
  Amount total = 0;
  while (find_levels(source, sink)) {
    at_ = first_;
    while (const Amount amount = push_one_path(source, sink)) total += amount;
  }
  return total;
}

bool Flow::find_levels(Node source, Node sink) {
  level_.assign(first_.size(), kNone);
  level_[source] = 0;
  std::vector<Node> queue{source};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (std::uint32_t e = first_[queue[i]]; e != kNone; e = edges_[e].next) {
      const Node to = edges_[e].to;
      if (edges_[e].left == 0 || level_[to] != kNone) continue;
      level_[to] = level_[queue[i]] + 1;
      queue.push_back(to);
    }
  }
  return level_[sink] != kNone;
}

// From where the last one ran dry, so that no edge is looked at twice in vain. Returns what it pushed; 0: no path is
// left.
Flow::Amount Flow::push_one_path(Node source, Node sink) {
  path_.clear();
  Node node = source;
  while (node != sink) {
    std::uint32_t& e = at_[node];
    while (e != kNone && (edges_[e].left == 0 || level_[edges_[e].to] != level_[node] + 1)) e = edges_[e].next;
    if (e != kNone) {
      path_.push_back(e);
      node = edges_[e].to;
    } else if (node == source) {
      return 0;
    } else {
      node = edges_[path_.back() ^ 1].to;
      path_.pop_back();
      at_[node] = edges_[at_[node]].next;
    }
  }
  Amount amount = ~Amount{0};
  for (const std::uint32_t e : path_) amount = std::min(amount, edges_[e].left);
  for (const std::uint32_t e : path_) {
    edges_[e].left -= amount;
    edges_[e ^ 1].left += amount;
  }
  return amount;
}

}  // namespace l2l::compiler::memory
