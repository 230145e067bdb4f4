// What every transport must do, as a function that all ranks call: on threads here, on processes under mpirun.
#pragma once

#include <string>

#include "collectives/collectives.h"

namespace l2l::collectives::testing {

// Exchanges of several sizes, several at a time, and in parts of the ranks. Empty, or what was wrong on this rank.
std::string run_suite(Collectives& ranks);

}  // namespace l2l::collectives::testing
