// On which NUMA node memory is placed.
#pragma once

#include <array>

namespace l2l {

// While it lives, pages that the calling thread (and those it starts) touches first are taken from `node` as long as it
// has some; afterwards the thread's memory policy is what it was (numactl's, say). Does nothing for -1, where the
// system refuses (memory is then as it would have been), and where the thread prefers a node already: the outermost
// holds. Thread-bound.
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
