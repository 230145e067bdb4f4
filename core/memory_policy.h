// Placement of memory on NUMA nodes.
#pragma once

#include <array>

namespace l2l {

// While it lives, pages first touched by the calling thread, or by threads that it starts, come from `node` as long as
// that has free memory. The destructor restores the thread's memory policy (numactl's, say). Does nothing for -1, where
// the system refuses, and inside another PreferredNode. Thread-bound.
class PreferredNode {
 public:
  explicit PreferredNode(int node);
  ~PreferredNode();
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

 private:
  static constexpr unsigned int kMostNodes = 1024;
  using Nodes = std::array<unsigned long, kMostNodes / (8 * sizeof(unsigned long))>;

  bool set_ = false;
  int previous_mode_ = 0;  // with its flags
  Nodes previous_nodes_{};
};

}  // namespace l2l
