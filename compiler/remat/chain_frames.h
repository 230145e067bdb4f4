// The faces of the lower convex hull of all ways to give layers their options, in (device bytes, host bytes, time).
// They depend on the options alone, not on numbers of layers: the hull of a sum is the sum of the hulls.
#pragma once

#include <cstdint>
#include <vector>

namespace l2l::compiler::remat {

using OptionIndex = std::uint32_t;

// What an option adds per layer.
struct Load {
  std::int64_t time = 0;  // ns
  std::int64_t device = 0, host = 0;
};
using Loads = std::vector<std::vector<Load>>;  // [type][option]

// What a byte costs in ns.
struct Tariff {
  double device = 0, host = 0;

  double of(const Load& load) const {
    return static_cast<double>(load.time) + device * static_cast<double>(load.device) +
           host * static_cast<double>(load.host);
  }
};

struct Move {
  std::size_t type = 0;
  OptionIndex option = 0;
  auto operator<=>(const Move&) const = default;
};

struct Frame {
  std::vector<OptionIndex> base = {};  // per type
  std::vector<Move> moves = {};        // up to two options beside the base
  std::vector<Tariff> tariffs = {};    // at which all of them cost least: one, or the ends of a border
};

// One at least. Every type has an option, and none of its options is as good as another one in all three respects.
std::vector<Frame> find_frames(const Loads& types);

}  // namespace l2l::compiler::remat
