// A pseudo-random permutation of an epoch's windows in constant memory: a Feistel network (Luby & Rackoff, SIAM J.
// Comput. 1988) over a power of four, applied again until the result is below the number of windows ("cycle walking",
// Black & Rogaway, CT-RSA 2002).
#pragma once

#include <cstdint>

#include "core/philox.h"

namespace l2l::runtime {

// What random numbers are drawn for. Round r of the Feistel network draws as `round0` + r, below 7; a sample's masks
// use the sample's number in place of the epoch.
enum class DataDraw : std::uint32_t { phase = 0, round0 = 1, mask = 7, validation_mask = 8 };

// Key of these random numbers. Its layer is one that no model has, so they differ from those of weights and dropout.
RngKey data_key(std::uint64_t seed, std::uint64_t epoch, DataDraw draw);

// The image of `index` in epoch `epoch`. `index` and the result are below `count`; no two indices have the same image.
std::uint64_t permute(std::uint64_t index, std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

}  // namespace l2l::runtime
