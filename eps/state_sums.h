// Checksums of a block of a group's state (optimizers/checksum.h): one for each array.
#pragma once

#include <array>
#include <cstdint>

#include "optimizers/checksum.h"

namespace l2l::eps {

enum class StateArray : std::uint8_t { wire, master, first_moment, second_moment };
inline constexpr std::size_t kStateArrays = 4;

// Elements summed at a time: what was just read is still in the first-level cache when it is updated and summed again.
// A multiple of 1,024, so that the int8 scales of a piece fill whole rows.
inline constexpr std::int64_t kSumPiece = 2048;

// By StateArray. An array that does not exist has the sum of no bytes. int8 codes and their scales have one sum.
using StateSums = std::array<std::uint64_t, kStateArrays>;

// The running sums of a block.
struct StateLanes {
  std::array<optimizers::ChecksumLanes, kStateArrays> codes;
  std::array<optimizers::ChecksumLanes, 2> scales;  // of the two moments

  StateSums sums() const {
    StateSums all{};
    for (std::size_t i = 0; i < kStateArrays; ++i) all[i] = codes[i].value();
    all[2] += scales[0].value() * 3;  // odd: a change of the scales alone changes the sum
    all[3] += scales[1].value() * 3;
    return all;
  }
};

// Thrown by GroupMemory; the store makes a CorruptState of it, which names group and step.
struct StateMismatch {
  StateArray array;
  std::size_t parameter;            // index in the group
  std::int64_t first = 0, end = 0;  // elements of the parameter
};

}  // namespace l2l::eps
