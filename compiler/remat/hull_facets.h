// The facets of the lower convex hull of all choices, as points (device bytes, host bytes, time). They follow from the
// options alone, not from numbers of layers: the hull of a Minkowski sum is the sum of the hulls.
#pragma once

#include <cstdint>
#include <vector>

namespace l2l::compiler::remat {

using OptionIndex = std::uint32_t;

// What a layer with some option adds.
struct Load {
  std::int64_t time = 0;  // ns
  std::int64_t device = 0, host = 0;
};
using Loads = std::vector<std::vector<Load>>;  // [type][option]

// Lagrange multipliers: the price of a byte in ns.
struct Multipliers {
  double device = 0, host = 0;

  double of(const Load& load) const {
    return static_cast<double>(load.time) + device * static_cast<double>(load.device) +
           host * static_cast<double>(load.host);
  }
};

struct TypeOption {
  std::size_t type = 0;
  OptionIndex option = 0;
  auto operator<=>(const TypeOption&) const = default;
};

struct Facet {
  std::vector<OptionIndex> base = {};         // per type: one option on the facet
  std::vector<TypeOption> others = {};        // the other options on the facet, two at most
  std::vector<Multipliers> multipliers = {};  // at which all of these options cost least; at least one
};

// Returns at least one facet. Every type must have an option, and no option may dominate another of its type.
std::vector<Facet> find_facets(const Loads& types);

}  // namespace l2l::compiler::remat
