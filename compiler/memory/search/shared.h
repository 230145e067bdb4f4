// What the searches are made of: the orders of blocks from which they begin, random numbers, and a parallel search
// with a deterministic winner.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Distinct orders of all blocks by size, length, surrounding load, and time. The surrounding load of a block is, with
// one stream, the largest live load during its lifetime; with several, its size and those of its neighbours.
std::vector<std::vector<Index>> sorted_orders(const Blocks& blocks);

// Size times lifetime, as sorted_orders() has them; with several streams size times the number of neighbours.
std::vector<double> areas_of(const Blocks& blocks);

// The same with every standard library: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014). Thread-bound.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t count) { return next() % count; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::uint64_t state_;
};

// Calls task(index, lost) for the indices below `count`, in order, on up to `threads` threads. A task returns whether
// it succeeded. The winner is the successful task of lowest index, whatever the number of threads: tasks above it may
// not be started, and may stop when lost(), which is thread-safe, is true. Waits for all tasks; rethrows what a task
// throws. Returns the winner, or `count`.
std::size_t race(std::size_t count, int threads,
                 const std::function<bool(std::size_t index, const std::function<bool()>& lost)>& task);

}  // namespace l2l::compiler::memory
