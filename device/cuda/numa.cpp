#include "device/cuda/numa.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace l2l::device::cuda {

int numa_node_of(const std::string& pci_bus_id) {
  std::string name = pci_bus_id;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream file("/sys/bus/pci/devices/" + name + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace l2l::device::cuda
