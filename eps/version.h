// The version of a group of weights.
#pragma once

#include <cstdint>

namespace l2l::eps {

using Version = std::uint64_t;  // number of completed steps of the run; step t (from 0) reads version t

}  // namespace l2l::eps
