#include "device/cuda/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace l2l::device::cuda {
namespace {

constexpr unsigned int kBits = 8 * sizeof(unsigned long);

}  // namespace

int numa_node_of(const std::string& pci_bus_id) {
  std::string name = pci_bus_id;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream file("/sys/bus/pci/devices/" + name + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

PreferredNode::PreferredNode(int node) {
  if (node < 0 || static_cast<unsigned int>(node) >= kMostNodes) return;
  if (syscall(SYS_get_mempolicy, &previous_mode_, previous_nodes_.data(), kMostNodes, nullptr, 0) != 0) return;
  Nodes mask{};
  mask[static_cast<unsigned int>(node) / kBits] = 1ul << (static_cast<unsigned int>(node) % kBits);
  set_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kMostNodes) == 0;
}

PreferredNode::~PreferredNode() {
  if (set_) syscall(SYS_set_mempolicy, previous_mode_, previous_nodes_.data(), kMostNodes);
}

}  // namespace l2l::device::cuda
