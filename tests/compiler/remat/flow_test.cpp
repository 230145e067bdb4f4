// The largest flow against shortest augmenting paths one by one (Edmonds and Karp 1972) on a matrix, and against the
// cut it claims.
#include "compiler/memory/flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/compiler/remat/random_numbers.h"

namespace l2l::compiler::remat {
namespace {

using compiler::memory::Flow;

struct Edge {
  Flow::Node from, to;
  Flow::Amount capacity;
};

class Matrix {
 public:
  Matrix(std::size_t nodes, const std::vector<Edge>& edges) : nodes_(nodes), left_(nodes * nodes, 0) {
    for (const Edge& edge : edges) left(edge.from, edge.to) += edge.capacity;
  }

  Flow::Amount largest(Flow::Node source, Flow::Node sink) {
    Flow::Amount total = 0;
    while (find_path(source, sink)) {
      Flow::Amount amount = ~Flow::Amount{0};
      for (Flow::Node n = sink; n != source; n = before_[n]) amount = std::min(amount, left(before_[n], n));
      for (Flow::Node n = sink; n != source; n = before_[n]) {
        left(before_[n], n) -= amount;
        left(n, before_[n]) += amount;
      }
      total += amount;
    }
    return total;
  }

 private:
  Flow::Amount& left(Flow::Node from, Flow::Node to) { return left_[from * nodes_ + to]; }

  bool find_path(Flow::Node source, Flow::Node sink) {
    before_.assign(nodes_, static_cast<Flow::Node>(nodes_));
    before_[source] = source;
    std::vector<Flow::Node> queue{source};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (Flow::Node to = 0; to < nodes_; ++to) {
        if (left(queue[i], to) == 0 || before_[to] != nodes_) continue;
        before_[to] = queue[i];
        queue.push_back(to);
      }
    }
    return before_[sink] != nodes_;
  }

  std::size_t nodes_;
  std::vector<Flow::Amount> left_;
  std::vector<Flow::Node> before_;
};

std::vector<Edge> random_edges(Random& random, std::size_t nodes, std::size_t count) {
  const std::uint64_t largest = one_in(random, 2) ? 5 : std::uint64_t{1} << 40;
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = static_cast<Flow::Node>(below(random, nodes)), to = static_cast<Flow::Node>(below(random, nodes));
    if (from != to) edges.push_back({from, to, below(random, largest + 1)});  // some of zero, some twice
  }
  return edges;
}

Flow::Amount cut_of(const Flow& flow, const std::vector<Edge>& edges) {
  Flow::Amount cut = 0;
  for (const Edge& edge : edges) cut += flow.reaches(edge.from) && !flow.reaches(edge.to) ? edge.capacity : 0;
  return cut;
}

TEST(RecomputeFlow, EqualsAugmentingPathsAndItsCut) {
  Random random(1);
  std::size_t cases = 0, flowing = 0, most_edges = 0;
  for (; cases < 600; ++cases) {
    const std::size_t nodes = 2 + below(random, cases % 20 == 0 ? 150 : 14);
    const std::vector<Edge> edges = random_edges(random, nodes, below(random, (cases % 20 == 0 ? 20 : 4) * nodes));
    Flow flow(nodes);
    for (const Edge& edge : edges) flow.add_edge(edge.from, edge.to, edge.capacity);
    const Flow::Amount amount = flow.run(0, 1);
    ASSERT_EQ(amount, Matrix(nodes, edges).largest(0, 1)) << cases;
    ASSERT_EQ(amount, cut_of(flow, edges)) << cases;
    ASSERT_FALSE(flow.reaches(1));
    flowing += amount > 0;
    most_edges = std::max(most_edges, edges.size());
  }
  EXPECT_GT(flowing, cases / 3);
  std::cout << cases << " graphs, " << flowing << " with a flow, up to " << most_edges << " edges\n";
}

}  // namespace
}  // namespace l2l::compiler::remat
