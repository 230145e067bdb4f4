// A transport over another one, with the bandwidth of a network: for judging schedules and overlap where there is none.
#pragma once

#include <memory>

#include "collectives/transport.h"

namespace l2l::collectives {

// An exchange is done when `inner` says so, and its bytes could have left and arrived: those of all exchanges of this
// rank go one behind the other, in the order in which they are started, in each direction at `bandwidth` bytes per
// second. What is split from it has the same bandwidth to itself. start() is for one thread at a time.
std::unique_ptr<Transport> paced(std::unique_ptr<Transport> inner, Bytes bandwidth);

}  // namespace l2l::collectives
