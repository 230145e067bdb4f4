// Which memory of the host is near a device.
#pragma once

#include <string>

namespace l2l::device::cuda {

// NUMA node of the PCI device "0000:1b:00.0", as the kernel knows it; -1: unknown.
int numa_node_of(const std::string& pci_bus_id);

}  // namespace l2l::device::cuda
