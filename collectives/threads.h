// Ranks that are threads of one process, for tests and measurements: what one sends is copied where another receives
// it.
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.h"

namespace l2l::collectives {

// One transport for each rank. They share what they need and may be destroyed in any order.
std::vector<std::unique_ptr<Transport>> connected_threads(int ranks);

}  // namespace l2l::collectives
