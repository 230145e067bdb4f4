// Random numbers for random problems.
#pragma once

#include <cstdint>
#include <random>

namespace l2l::compiler::remat {

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t end) { return random() % end; }
inline bool one_in(Random& random, std::uint64_t n) { return random() % n == 0; }

}  // namespace l2l::compiler::remat
