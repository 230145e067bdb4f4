#include "compiler/memory/placed.h"

#include <algorithm>
#include <bit>

namespace l2l::compiler::memory {
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
  if (ranks_pay_ && recent_.size() > kMostRecent) rank_recent();
}

std::span<const Placed::Extent> Placed::met_by(Index block) {
  met_.clear();
  met_recent_.clear();
  met_ranks_.clear();
  for (const Index other : blocks_.meetings(block)) {
    const std::uint32_t rank = rank_[other];
    if (rank < kRecent) {
      met_ranks_.push_back(rank);
    } else if (rank == kRecent) {
      met_recent_.push_back({offsets_[other], offsets_[other] + blocks_.size(other), other});
    }
  }
  sort_ranks();
  for (const std::uint32_t rank : met_ranks_) met_.push_back(ranked_[rank]);
  if (met_recent_.empty()) return met_;
  std::sort(met_recent_.begin(), met_recent_.end(), lower);
  const auto middle = static_cast<std::ptrdiff_t>(met_.size());
  met_.insert(met_.end(), met_recent_.begin(), met_recent_.end());
  std::inplace_merge(met_.begin(), met_.begin() + middle, met_.end(), lower);
  return met_;
}

void Placed::sort_ranks() {
  const std::size_t words = ranked_.size() / 64 + 1;
  if (met_ranks_.size() * 8 < words) return std::sort(met_ranks_.begin(), met_ranks_.end());
  for (const std::uint32_t rank : met_ranks_) row_[rank / 64] |= std::uint64_t{1} << rank % 64;
  std::size_t at = 0;
  for (std::size_t w = 0; w < words; ++w) {
    for (std::uint64_t bits = row_[w]; bits != 0; bits &= bits - 1) {
      met_ranks_[at++] = static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(std::countr_zero(bits));
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

}  // namespace l2l::compiler::memory
