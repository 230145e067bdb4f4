// What a piece of a step takes that was not measured: its arithmetic and its bytes, at the rates of pieces that were.
#pragma once

#include <array>
#include <cstdint>

#include "compiler/ir/graph.h"

namespace l2l::runtime {

// Of one run of something that has the machine for itself.
struct Cost {
  double seconds = 0;
  double processor = 0;  // seconds of this process's threads, added up
};
inline Cost operator*(double count, const Cost& cost) { return {count * cost.seconds, count * cost.processor}; }
inline Cost operator+(const Cost& a, const Cost& b) { return {a.seconds + b.seconds, a.processor + b.processor}; }

// Ops that are bound by arithmetic and by memory, copies over the link, updates: each sort has rates of its own.
enum class PieceSort : std::uint8_t { arithmetic, memory, link, update, count };
// Seconds at nominal rates, by sort.
using PieceWork = std::array<double, static_cast<std::size_t>(PieceSort::count)>;

PieceWork work_of(PieceSort sort, double seconds);
// Operations of an op's matrix products, 0 where it has none. Of attention, as if every row saw all of its sequence.
double product_operations(const compiler::Graph& graph, const compiler::Op& op);
// At 10^11 operations and 10^10 bytes a second, those of an ordinary host.
PieceWork work_of(const compiler::Graph& graph);

// Pieces that were measured correct the nominal rates. Thread-bound.
class PieceRates {
 public:
  // A piece of several sorts corrects each in proportion to its share.
  void learn(const PieceWork& work, const Cost& cost);
  Cost estimate(const PieceWork& work) const;

 private:
  Cost rate(std::size_t sort) const;

  struct Sum {
    Cost cost;
    double nominal = 0;
  };
  std::array<Sum, static_cast<std::size_t>(PieceSort::count)> sums_{};
};

}  // namespace l2l::runtime
