#include "device/planner/placed.h"

#include <algorithm>
#include <bit>

namespace l2l::device::planner {
namespace {

bool lower(const Placed::Extent& a, const Placed::Extent& b) { return a.offset < b.offset; }

}  // namespace

Placed::Placed(const Blocks& blocks)
    : blocks_(blocks), offsets_(blocks.count(), 0), rank_(blocks.count(), kNowhere), row_(blocks.count() / 64 + 1, 0) {}

void Placed::put(Index block, Bytes offset) {
  offsets_[block] = offset;
  rank_[block] = kRecent;
  recent_.push_back({offset, offset + blocks_.size(block), block});
  footprint_ = std::max(footprint_, recent_.back().end);
  if (recent_.size() > kMostRecent) rank_recent();
}

std::span<const Placed::Extent> Placed::met_by(Index block) {
  met_.clear();
  met_recent_.clear();
  for (const Index other : blocks_.meetings(block)) {
    const std::uint32_t rank = rank_[other];
    if (rank < kRecent) {
      row_[rank / 64] |= std::uint64_t{1} << rank % 64;
    } else if (rank == kRecent) {
      met_recent_.push_back({offsets_[other], offsets_[other] + blocks_.size(other), other});
    }
  }
  append_ranked();
  if (met_recent_.empty()) return met_;
  std::sort(met_recent_.begin(), met_recent_.end(), lower);
  const auto middle = static_cast<std::ptrdiff_t>(met_.size());
  met_.insert(met_.end(), met_recent_.begin(), met_recent_.end());
  std::inplace_merge(met_.begin(), met_.begin() + middle, met_.end(), lower);
  return met_;
}

void Placed::append_ranked() {
  const std::size_t words = ranked_.size() / 64 + 1;
  for (std::size_t w = 0; w < words; ++w) {
    for (std::uint64_t bits = row_[w]; bits != 0; bits &= bits - 1) {
      met_.push_back(ranked_[w * 64 + static_cast<std::size_t>(std::countr_zero(bits))]);
    }
    row_[w] = 0;
  }
}

void Placed::rank_recent() {
  std::sort(recent_.begin(), recent_.end(), lower);
  const auto middle = static_cast<std::ptrdiff_t>(ranked_.size());
  ranked_.insert(ranked_.end(), recent_.begin(), recent_.end());
  std::inplace_merge(ranked_.begin(), ranked_.begin() + middle, ranked_.end(), lower);
  recent_.clear();
  for (std::size_t i = 0; i < ranked_.size(); ++i) rank_[ranked_[i].block] = static_cast<std::uint32_t>(i);
}

}  // namespace l2l::device::planner
