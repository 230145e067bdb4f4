// Maximum flow by blocking flows (Dinic 1970).
#pragma once

#include <cstdint>
#include <vector>

namespace l2l::compiler::memory {

// Thread-bound. Nodes are numbered from 0.
class Flow {
 public:
  using Node = std::uint32_t;
  using Amount = std::uint64_t;

  explicit Flow(std::size_t nodes) : first_(nodes, kNone) {}

  void add_edge(Node from, Node to, Amount capacity);
  // Returns the maximum flow.
  Amount run(Node source, Node sink);
  // After run(): whether `node` is on the source's side of the minimum cut.
  bool reaches(Node node) const { return level_[node] != kNone; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Edge {
    Node to;
    std::uint32_t next;  // edge that leaves the same node
    Amount left;
  };

  bool find_levels(Node source, Node sink);
  Amount push_one_path(Node source, Node sink);

  std::vector<std::uint32_t> first_, at_, level_;
  std::vector<Edge> edges_;  // an edge and its reverse are adjacent
  std::vector<std::uint32_t> path_;
};

}  // namespace l2l::compiler::memory
