#include "eps/group_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "l2l/errors.h"
#include "optimizers/kernels.h"

namespace l2l::eps {
namespace {

float element(const void* data, DType type) {
  if (type == DType::f32) return *static_cast<const float*>(data);
  const std::uint16_t bits = *static_cast<const std::uint16_t*>(data);
  return type == DType::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
}

// Adds `count` leaves as a binary tree, ((0 + 1) + (2 + 3)) + .... The sums that wait for their other half lie on a
// stack: push(leaf) puts one more there, add() adds the last to the one before it, which stays.
template <typename Push, typename Add>
void sum_tree(std::size_t count, const Push& push, const Add& add) {
  for (std::size_t leaf = 0; leaf < count; ++leaf) {
    push(leaf);
    for (std::size_t above = leaf; above % 2 == 1; above /= 2) add();
  }
  for (int left = std::popcount(count); left > 1; --left) add();
}

}  // namespace

// Finds the contributions to element `at`, and up to which element they stay the same.
bool GradientRuns::collect(std::int64_t at) {
  parts_ = 0;
  same_until_ = block_.end;
  for (const Contribution& part : contributions_.parts) {
    if (part.begin > at) same_until_ = std::min(same_until_, part.begin);
    if (part.begin > at || part.end <= at) continue;
    if (parts_ == at_.size()) throw Error("a gradient has more than " + std::to_string(at_.size()) + " contributions");
    at_[parts_++] = part.data + static_cast<Bytes>(at - part.begin) * size_of(contributions_.type);
    same_until_ = std::min(same_until_, part.end);
  }
  return parts_ > 0;
}

// The run's gradients are the first `count` sums.
void GradientRuns::take_sums(std::size_t count) {
  type_ = DType::f32;
  parts_ = count;
  for (std::size_t i = 0; i < count; ++i) at_[i] = sums_[i].data();
}

// Element by element: contributions begin or end within the run.
void GradientRuns::sum_elements() {
  for (std::int64_t at = begin_; at < end_; ++at) {
    collect(at);
    std::array<float, kMostSums> stack;
    std::size_t depth = 0;
    const auto add = [&] {
      --depth;
      stack[depth - 1] += stack[depth];
    };
    for (std::size_t use = 0; use < parts_; use += contributions_.devices) {
      sum_tree(
          contributions_.devices,
          [&](std::size_t device) { stack[depth++] = element(at_[use + device], contributions_.type); }, add);
      if (use > 0) add();
    }
    sums_[0][static_cast<std::size_t>(at - begin_)] = stack[0];
  }
  take_sums(1);
}

// All but the last addition, which the kernel that reads the run makes.
void GradientRuns::sum_by_tree() {
  const optimizers::Kernels& kernels = optimizers::kernels();
  optimizers::Streams streams;
  streams.count = static_cast<std::size_t>(count());
  std::size_t depth = 0;
  bool add_is_due = false;
  const auto make_due_addition = [&] {
    if (!std::exchange(add_is_due, false)) return;
    --depth;
    const void* const both[] = {sums_[depth - 1].data(), sums_[depth].data()};
    streams.gradients = both;
    streams.contributions = 2;
    kernels.sum[optimizers::index_of(DType::f32)](streams, sums_[depth - 1].data());
  };
  const auto add = [&] {
    make_due_addition();
    add_is_due = true;
  };
  for (std::size_t use = 0; use < parts_; use += contributions_.devices) {
    const std::size_t pairs = (contributions_.devices + 1) / 2;  // the tree's lowest sums, from memory
    sum_tree(
        pairs,
        [&](std::size_t pair) {
          make_due_addition();
          streams.gradients = at_.data() + use + 2 * pair;
          streams.contributions = std::min<std::size_t>(contributions_.devices - 2 * pair, 2);
          kernels.sum[optimizers::index_of(type_)](streams, sums_[depth++].data());
        },
        add);
    if (use > 0) add();
  }
  take_sums(depth);
}

bool GradientRuns::next() {
  begin_ = end_;
  if (begin_ >= block_.end) return false;
  if (!collect(begin_)) throw Error("element " + std::to_string(begin_) + " of a group has no gradient");
  if (parts_ % contributions_.devices != 0) throw Error("a use of a group has gradients of some devices alone");
  type_ = contributions_.type;
  end_ = same_until_ == block_.end ? same_until_ : same_until_ - (same_until_ - block_.begin) % kRunUnit;
  if (end_ > begin_ && is_in_order()) return true;
  const bool alike = end_ > begin_;
  end_ = std::min(begin_ + kRunUnit, block_.end);
  alike ? sum_by_tree() : sum_elements();
  return true;
}

void GradientRuns::sum(std::int64_t first, std::span<float> sums) const {
  if (type_ != DType::f32) throw Error("what is measured for statistics comes in " + std::string(name_of(type_)));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float sum = 0;
    for (std::size_t part = 0; part < parts_; ++part) {
      sum += static_cast<const float*>(at_[part])[static_cast<std::size_t>(first) + i];
    }
    sums[i] = sum;
  }
}

void GradientRuns::enter(optimizers::Streams& streams) const {
  streams.gradients = at_.data();
  streams.contributions = parts_;
}

void sum_over_devices(const Contributions& use, std::int64_t first, std::span<float> sums) {
  const optimizers::Kernels& kernels = optimizers::kernels();
  const Block range{first, first + static_cast<std::int64_t>(sums.size()), 0, 0};
  GradientRuns runs(use, range);
  while (runs.next()) {
    optimizers::Streams streams;
    streams.count = static_cast<std::size_t>(runs.count());
    runs.enter(streams);
    kernels.sum[optimizers::index_of(runs.type())](streams, sums.data() + (runs.begin() - first));
  }
}

double sum_of_squares(const GroupMemory& memory, const Contributions& contributions, Workers& workers,
                      std::span<double> block_sums) {
  const optimizers::Kernels& kernels = optimizers::kernels();
  const std::span<const BlockRange> jobs = memory.jobs();
  workers.parallel_for(static_cast<std::int64_t>(jobs.size()), [&](std::int64_t job, int) {
    const BlockRange range = jobs[static_cast<std::size_t>(job)];
    for (std::int64_t block = range.begin; block < range.end; ++block) {
      double lanes[16] = {};
      GradientRuns runs(contributions, memory.block(block));
      while (runs.next()) {
        optimizers::Streams streams;
        streams.count = static_cast<std::size_t>(runs.count());
        runs.enter(streams);
        kernels.squares[optimizers::index_of(runs.type())](streams, lanes);
      }
      const double sum = optimizers::sum_of_lanes(lanes);
      const bool counts = memory.rule(memory.block(block)).statistic == 0 || !std::isfinite(sum);
      block_sums[static_cast<std::size_t>(block)] = counts ? sum : 0;
    }
  });
  double total = 0;
  for (std::int64_t block = 0; block < memory.blocks(); ++block) total += block_sums[static_cast<std::size_t>(block)];
  return total;
}

}  // namespace l2l::eps
