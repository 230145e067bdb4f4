#include "eps/group_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "l2l/errors.h"
#include "optimizers/kernels.h"

namespace l2l::eps {
namespace {

float element(const void* data, DType type) {
  if (type == DType::f32) return *static_cast<const float*>(data);
  const std::uint16_t bits = *static_cast<const std::uint16_t*>(data);
  return type == DType::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
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

// Sums elements [begin, end), in which contributions begin or end.
void GradientRuns::gather(std::int64_t begin, std::int64_t end) {
  for (std::int64_t at = begin; at < end; ++at) {
    collect(at);
    float sum = element(at_[0], contributions_.type);
    for (std::size_t k = 1; k < parts_; ++k) sum += element(at_[k], contributions_.type);
    sums_[static_cast<std::size_t>(at - begin)] = sum;
  }
  type_ = DType::f32;
  parts_ = 1;
  at_[0] = sums_.data();
}

bool GradientRuns::next() {
  begin_ = end_;
  if (begin_ >= block_.end) return false;
  if (!collect(begin_)) throw Error("element " + std::to_string(begin_) + " of a group has no gradient");
  type_ = contributions_.type;
  end_ = same_until_ == block_.end ? same_until_ : same_until_ - (same_until_ - block_.begin) % kRunUnit;
  if (end_ > begin_) return true;
  end_ = std::min(begin_ + kRunUnit, block_.end);
  gather(begin_, end_);
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
