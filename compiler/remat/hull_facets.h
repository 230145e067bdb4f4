// The facets of the lower convex hull of all choices, as points (device bytes, host bytes, time). They follow from the
// options alone, not from numbers of layers: the hull of a Minkowski sum is the sum of the hulls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace l2l::compiler::remat {

// What layers take: whole numbers below 2^52, so that sums and differences are exact.
struct Load {
  double time = 0;  // ns
  double device = 0, host = 0;

  Load operator+(const Load& other) const { return {time + other.time, device + other.device, host + other.host}; }
  friend Load operator*(double n, const Load& load) { return {n * load.time, n * load.device, n * load.host}; }
};
using Loads = std::vector<std::vector<Load>>;  // [type][option]

// Lagrange multipliers: the price of a byte in ns.
struct Multipliers {
  double device = 0, host = 0;

  double of(const Load& load) const { return load.time + device * load.device + host * load.host; }
};

struct TypeOption {
  std::size_t type = 0, option = 0;
  bool operator==(const TypeOption&) const = default;
};

struct Facet {
  std::vector<std::size_t> base = {};   // per type: one option on the facet
  std::vector<TypeOption> others = {};  // the other options on the facet, two at most
  Multipliers multipliers = {};         // at which all of these cost least

  bool has(const TypeOption& option) const {
    return base[option.type] == option.option || std::find(others.begin(), others.end(), option) != others.end();
  }
};

// Returns at least one facet. Every type must have an option.
std::vector<Facet> find_facets(const Loads& types);

}  // namespace l2l::compiler::remat
