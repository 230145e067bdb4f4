// The 0/1 knapsack problem for all capacities at once: the Pareto front of bytes and value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/remat/nanoseconds.h"
#include "core/bytes.h"

namespace l2l::compiler::remat {

struct KnapsackItem {
  Bytes bytes = 0;
  Nanoseconds value = 0;
};

struct Knapsack {
  std::vector<std::uint32_t> items = {};  // ascending
  Bytes bytes = 0;
  Nanoseconds value = 0;
  Nanoseconds short_by = 0;  // no choice within the capacity is worth more than value + short_by
};

inline constexpr std::size_t kMostChoices = 1 << 16;

// Immutable. The choices of items that are worth more than every choice of as few bytes. Bytes are summed exactly.
// Exact with up to `limit` points; beyond, the front is thinned (see short_by()). 64 items stay below the default limit
// unless value follows bytes closely. Deterministic.
class ParetoFront {
 public:
  struct Point {
    Bytes bytes;
    Nanoseconds value;
    std::uint32_t trail;  // linked list of its items
  };

  // Throws BadInput when bytes or values of all items together exceed 64 bits.
  explicit ParetoFront(std::span<const KnapsackItem> items, std::size_t limit = kMostChoices);

  std::span<const Point> points() const { return points_; }  // bytes and value ascend; the first one is (0, ...)
  // For every choice of items there is a point of no more bytes that is worth at most this much less.
  Nanoseconds short_by() const { return short_by_; }
  // The point of greatest value within `capacity`. The value never falls as the capacity grows.
  Knapsack best(Bytes capacity) const;

 private:
  struct Trail {
    std::uint32_t item, before;
  };

  void add(std::uint32_t index, const KnapsackItem& item);
  void thin(std::size_t limit);

  std::vector<Point> points_{{0, 0, 0}};
  std::vector<Trail> trails_{{0, 0}};  // [0] ends every list
  Nanoseconds short_by_ = 0;
};

}  // namespace l2l::compiler::remat
