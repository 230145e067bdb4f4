// The gradient of a group: the sum of its contributions in fp32, in a fixed order. Those of one use are the leaves of a
// binary tree over the devices, ((0 + 1) + (2 + 3)) + ..., so that a sum over 2^n devices that begin at a multiple of
// that is the same, wherever it is made. The sums of uses are added from the first to the last.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>

#include "core/dtype.h"
#include "core/workers.h"
#include "eps/group_memory.h"
#include "optimizers/streams.h"

namespace l2l::eps {

// Gradients of one use of a group from one device: a flat array of the group's elements [begin, end).
struct Contribution {
  const std::byte* data = nullptr;
  std::int64_t begin = 0, end = 0;
};

// Contributions of one group: of each use `devices`, one behind the other. Their ranges cover every element, those of
// one use the same.
struct Contributions {
  std::span<const Contribution> parts;
  DType type = DType::f32;
  std::size_t devices = 1;
  std::size_t summed = 1;  // devices that each of them is the sum of, in fp32
};

// Unit of runs: what a kernel does not sum in this order itself is summed to fp32 first, a unit at a time.
inline constexpr std::int64_t kRunUnit = optimizers::kScaleBlock;

// Walks one block in runs of elements with the same contributions, in ascending order. Runs begin at multiples of
// kRunUnit from the block's begin, so that the bits do not depend on where contributions begin. Thread-bound.
class GradientRuns {
 public:
  GradientRuns(const Contributions& contributions, const Block& block)
      : contributions_(contributions), block_(block), end_(block.begin) {}
  // Steps to the next run; false when there is none.
  bool next();
  std::int64_t begin() const { return begin_; }
  std::int64_t count() const { return end_ - begin_; }
  DType type() const { return type_; }  // of the run's gradients
  // The sums of its elements from begin() + `first` on. fp32 alone.
  void sum(std::int64_t first, std::span<float> sums) const;
  // Sets the gradients of `streams` to the run's; valid until next().
  void enter(optimizers::Streams& streams) const;

 private:
  bool collect(std::int64_t at);
  bool is_in_order() const { return contributions_.devices <= (parts_ == contributions_.devices ? 3 : 1); }
  void sum_elements();
  void sum_by_tree();
  void take_sums(std::size_t count);

  const Contributions& contributions_;
  const Block& block_;
  std::int64_t begin_ = 0, end_;
  std::int64_t same_until_ = 0;  // the contributions are the same up to here
  DType type_ = DType::f32;
  std::size_t parts_ = 0;
  std::array<const void*, kMostContributions> at_;  // the run's contributions
  // Of a tree the levels and its root; one more of the uses before.
  static constexpr std::size_t kMostSums = std::bit_width(std::size_t{kMostContributions}) + 1;  // of trees, at once
  alignas(64) std::array<std::array<float, kRunUnit>, kMostSums> sums_;
};

// The sums over the devices of one use's gradients, of the group's elements from `first` on. `use`: of this use alone.
void sum_over_devices(const Contributions& use, std::int64_t first, std::span<float> sums);

// Sum of squares of the gradient, in double, in which statistics do not count; not finite exactly if an element of the
// gradient, or of what was measured for a statistic, is not. `block_sums` has
// room for the group's blocks. The bits depend on the shape of the group alone.
double sum_of_squares(const GroupMemory& memory, const Contributions& contributions, Workers& workers,
                      std::span<double> block_sums);

}  // namespace l2l::eps
