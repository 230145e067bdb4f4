// Maximum flow by blocking flows (Dinic 1970).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace l2l::compiler::memory {

// Thread-bound. Nodes are numbered from 0.
class Flow {
 public:
  using Node = std::uint32_t;
  using Amount = std::uint64_t;

  explicit Flow(std::size_t nodes) : first_(nodes + 1, 0) {}

  void add_edge(Node from, Node to, Amount capacity) { added_.push_back({from, to, capacity}); }
  // To be called once, when all edges have been added. Returns the maximum flow; or less when stop(steps) is true,
  // which is called now and then with the number of edges looked at: then reaches() means nothing.
  Amount run(Node source, Node sink, const std::function<bool(std::uint64_t steps)>& stop = {});
  // After run(): whether `node` is on the source's side of the minimum cut.
  bool reaches(Node node) const { return level_[node] != kNone; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Added {
    Node from, to;
    Amount capacity;
  };
  struct Edge {
    Node to;
    std::uint32_t reverse;
    Amount left;
  };

  void connect();
  bool find_levels(Node source, Node sink);
  Amount push_one_path(Node source, Node sink);

  std::vector<Added> added_;          // until run()
  std::vector<std::uint32_t> first_;  // the edges that leave a node are adjacent: [first_[node], first_[node + 1])
  std::vector<Edge> edges_;           // with the reverse of each
  std::vector<std::uint32_t> at_, level_;
  std::vector<std::uint32_t> path_;
  std::uint64_t steps_ = 0;
};

}  // namespace l2l::compiler::memory
