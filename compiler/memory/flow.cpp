#include "compiler/memory/flow.h"

#include <algorithm>
#include <numeric>

namespace l2l::compiler::memory {
namespace {

constexpr std::uint64_t kEdgesPerQuestion = 100'000;

}  // namespace

Flow::Amount Flow::run(Node source, Node sink, const std::function<bool(std::uint64_t)>& stop) {
  connect();
  Amount total = 0;
  std::uint64_t asked = 0;
  const auto stopped = [&] {
    if (!stop || steps_ - asked < kEdgesPerQuestion) return false;
    asked = steps_;
    return stop(steps_);
  };
  while (find_levels(source, sink)) {
    at_.assign(first_.begin(), first_.end() - 1);
    while (const Amount amount = push_one_path(source, sink)) {
      total += amount;
      if (stopped()) return total;
    }
  }
  return total;
}

// Sorts the edges by the node that they leave, so that those looked at together lie side by side.
void Flow::connect() {
  for (const Added& added : added_) {
    ++first_[added.from + 1];
    ++first_[added.to + 1];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  edges_.resize(2 * added_.size());
  std::vector<std::uint32_t> next(first_);
  for (const Added& added : added_) {
    const std::uint32_t edge = next[added.from]++, reverse = next[added.to]++;
    edges_[edge] = {added.to, reverse, added.capacity};
    edges_[reverse] = {added.from, edge, 0};
  }
  added_ = {};
}

bool Flow::find_levels(Node source, Node sink) {
  level_.assign(first_.size() - 1, kNone);
  level_[source] = 0;
  std::vector<Node> queue{source};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const Node node = queue[i];
    steps_ += first_[node + 1] - first_[node];
    for (std::uint32_t e = first_[node]; e != first_[node + 1]; ++e) {
      const Node to = edges_[e].to;
      if (edges_[e].left == 0 || level_[to] != kNone) continue;
      level_[to] = level_[node] + 1;
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
    const std::uint32_t begin = e, end = first_[node + 1];
    while (e != end && (edges_[e].left == 0 || level_[edges_[e].to] != level_[node] + 1)) ++e;
    steps_ += 1 + e - begin;
    if (e != end) {
      path_.push_back(e);
      node = edges_[e].to;
    } else if (node == source) {
      return 0;
    } else {
      node = edges_[edges_[path_.back()].reverse].to;
      path_.pop_back();
      ++at_[node];
    }
  }
  Amount amount = ~Amount{0};
  for (const std::uint32_t e : path_) amount = std::min(amount, edges_[e].left);
  for (const std::uint32_t e : path_) {
    edges_[e].left -= amount;
    edges_[edges_[e].reverse].left += amount;
  }
  return amount;
}

}  // namespace l2l::compiler::memory
