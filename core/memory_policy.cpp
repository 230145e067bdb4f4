#include "core/memory_policy.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace l2l {
namespace {

constexpr unsigned int kBits = 8 * sizeof(unsigned long);

}  // namespace

PreferredNode::PreferredNode(int node) {
  if (node < 0 || static_cast<unsigned int>(node) >= kMostNodes) return;
  if (syscall(SYS_get_mempolicy, &previous_mode_, previous_nodes_.data(), kMostNodes, nullptr, 0) != 0) return;
  if ((previous_mode_ & ~MPOL_MODE_FLAGS) == MPOL_PREFERRED) return;
  Nodes mask{};
  mask[static_cast<unsigned int>(node) / kBits] = 1ul << (static_cast<unsigned int>(node) % kBits);
  set_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kMostNodes) == 0;
}

PreferredNode::~PreferredNode() {
  if (set_) syscall(SYS_set_mempolicy, previous_mode_, previous_nodes_.data(), kMostNodes);
}

}  // namespace l2l
