// Which lane of workers has which parameter group.
#pragma once

#include <span>
#include <vector>

#include "core/bytes.h"

namespace l2l::eps {

// The lane of each group, from the groups' bytes in the order of the relay and the lanes' numbers of workers. Lanes get
// bytes in proportion to their workers, and neighbours different lanes as far as that allows, so that all lanes have
// work when the relay goes through the layers. Groups above the average (a table) are placed first, the rest around
// them. Pure.
std::vector<int> spread_groups(std::span<const Bytes> groups, std::span<const int> workers);

}  // namespace l2l::eps
