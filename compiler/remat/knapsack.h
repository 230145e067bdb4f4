// Which of some items to take so that their bytes fit and their value is greatest, and all such choices as bytes grow.
// Lists of choices of which none is both lighter and worth more than another (Nemhauser and Ullmann 1969), item by
// item, those of greater value per byte first; for one capacity also the bound of Dantzig (1957).
//
// Bytes are summed exactly, never rounded: no choice exceeds the capacity. Exact as long as a list has at most `limit`
// choices; then it is thinned, and `short_by` says by how much value the answer may miss the best one. 64 items stay
// below that unless value follows weight exactly.
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
  Nanoseconds short_by = 0;  // no choice is worth more than value + short_by
};

inline constexpr std::size_t kMostChoices = 1 << 16;

// Of equal value the lightest. Deterministic. What is not proved best (short_by > 0) may fall a little as the capacity
// grows; take a front where it must not. Throws BadInput when the values of all items together exceed 64 bits.
Knapsack knapsack(std::span<const KnapsackItem> items, Bytes capacity, std::size_t limit = kMostChoices);

// Every choice of items that is worth more than all others of as few bytes. Immutable.
class ParetoFront {
 public:
  struct Point {
    Bytes bytes;
    Nanoseconds value;
    std::uint32_t trail;  // its last item and those before
  };

  // Throws BadInput when bytes or values of all items together exceed 64 bits.
  explicit ParetoFront(std::span<const KnapsackItem> items, std::size_t limit = kMostChoices);

  std::span<const Point> points() const { return points_; }  // bytes and value ascend; the first one is (0, ...)
  // For each choice of items there is a point as light that is worth at most so much less.
  Nanoseconds short_by() const { return short_by_; }
  // The point of most value within `capacity`: never worth less when the capacity grows.
  Knapsack best(Bytes capacity) const;

 private:
  friend Knapsack knapsack(std::span<const KnapsackItem>, Bytes, std::size_t);
  struct Trail {
    std::uint32_t item, before;
  };

  explicit ParetoFront(Bytes capacity) : capacity_(capacity) {}
  void add(std::uint32_t index, const KnapsackItem& item);
  void thin(std::size_t limit);

  Bytes capacity_ = ~Bytes{0};  // of every point
  std::vector<Point> points_{{0, 0, 0}};
  std::vector<Trail> trails_{{0, 0}};  // the first is the end of all
  Nanoseconds short_by_ = 0;
};

}  // namespace l2l::compiler::remat
