// Assigns parameter groups to lanes (the workers of one NUMA node).
#pragma once

#include <span>
#include <vector>

#include "core/bytes.h"

namespace l2l::eps {

// The lane of each group. `groups`: their bytes, in the order of the relay. `workers`: of each lane. Lanes get bytes in
// proportion to their workers; as far as that allows, neighbours get different lanes, so that all lanes have work while
// the relay goes through the layers. Groups larger than the average (a table) are placed first. Pure.
std::vector<int> spread_groups(std::span<const Bytes> groups, std::span<const int> workers);

}  // namespace l2l::eps
