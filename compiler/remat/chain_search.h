// Searches the choices of which all but a few layers lie on one facet of the convex hull.
#pragma once

#include <algorithm>
#include <cstdint>
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

// The facets of the lower convex hull of all choices (hull_facets.cpp), as points (device bytes, host bytes, time).
// They follow from the options alone, not from numbers of layers: the hull of a Minkowski sum is the sum of the hulls.
// Returns at least one. Every type must have an option.
std::vector<Facet> find_facets(const Loads& types);

struct SearchProblem {
  const Loads& types;                 // each with an option
  const std::vector<double>& layers;  // per type
  double device = 0, host = 0;        // budgets in bytes
};

// Above all times and bytes; whole numbers up to here are exact in doubles.
inline constexpr double kInfiniteLoad = std::uint64_t{1} << 52;

struct ChainResult {
  double time = kInfiniteLoad;
  std::vector<std::vector<std::size_t>> layers = {};  // [type][option]
};

// Replaces `best` by the fastest choice found, if that is faster. Returns a bound: no choice takes less time;
// kInfiniteLoad if none can fit.
double improve(const SearchProblem& problem, ChainResult& best);

}  // namespace l2l::compiler::remat
