// Pseudo-random order of the windows of an epoch in constant memory: a Feistel network (Luby & Rackoff, SIAM J. Comput.
// 1988) over a power of four, walked along its cycles until it lands below the number of windows (Black & Rogaway,
// CT-RSA 2002). Immutable.
#pragma once

#include <cstdint>

#include "core/philox.h"

namespace l2l::runtime {

// What the data draws; Feistel round r draws with op `round0` + r
// (below 7); masks of a sample are drawn with its number in place of the epoch.
enum class DataDraw : std::uint32_t { phase = 0, round0 = 1, mask = 7, validation_mask = 8 };

// Key of the data's random numbers: a layer that no model has, so that they share none with weights and dropout.
RngKey data_key(std::uint64_t seed, std::uint64_t epoch, DataDraw draw);

// Where `index` (below `count`) goes in epoch `epoch`: below `count`, and no two to the same place.
std::uint64_t permute(std::uint64_t index, std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

}  // namespace l2l::runtime
