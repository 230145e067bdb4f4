#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/memory/greedy.h"
#include "compiler/memory/interference.h"

namespace l2l::compiler::memory {
namespace {

// Thread-bound. The free extents below top_; no two are adjacent.
class FreeList {
 public:
  explicit FreeList(Bytes bottom) : top_(bottom) {}

  Bytes take(Bytes size) {
    const auto tight = by_length_.lower_bound({size, 0});
    if (tight == by_length_.end()) return grow(size);
    const auto [length, offset] = *tight;
    remove(offset, length);
    if (length > size) insert(offset + size, length - size);
    return offset;
  }

  void give(Bytes offset, Bytes size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      const auto [at, length] = *next;
      size += length;
      remove(at, length);
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto [at, length] = *std::prev(next);
      if (at + length == offset) {
        remove(at, length);
        offset = at;
        size += length;
      }
    }
    insert(offset, size);
  }

 private:
  // Allocates at the top, using the free extent that ends there, if any.
  Bytes grow(Bytes size) {
    Bytes offset = top_;
    if (!by_offset_.empty()) {
      const auto [at, length] = *by_offset_.rbegin();
      if (at + length == top_) {
        remove(at, length);
        offset = at;
      }
    }
    top_ = offset + size;
    return offset;
  }
  void insert(Bytes offset, Bytes length) {
    by_offset_.emplace(offset, length);
    by_length_.emplace(length, offset);
  }
  void remove(Bytes offset, Bytes length) {
    by_offset_.erase(offset);
    by_length_.erase({length, offset});
  }

  Bytes top_;
  std::map<Bytes, Bytes> by_offset_;
  std::set<std::pair<Bytes, Bytes>> by_length_;
};

struct Lifetime {
  Time begin = 0, end = 0;
};

// Of each tensor, on one time line, such that those of two tensors overlap if the tensors can be alive at once. With
// several streams a time is a place in a list of all tensors, roughly in the order in which they begin; a tensor ends
// at the first place from which on every tensor begins after it is done.
std::vector<Lifetime> lifetimes_of(const Problem& problem) {
  std::vector<Lifetime> lifetimes(problem.tensors.size());
  if (problem.streams == 1) {
    for (Index t = 0; t < lifetimes.size(); ++t) lifetimes[t] = {problem.begin[t], problem.end[t]};
    return lifetimes;
  }
  std::vector<Index> order = live_tensors(problem);
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return entry_sum(problem.begin_of(a)) < entry_sum(problem.begin_of(b)); });
  std::vector<Time> earliest(order.size());  // begin from a place on
  for (std::size_t s = 0; s < problem.streams; ++s) {
    for (std::size_t at = order.size(); at-- > 0;) {
      earliest[at] = problem.begin_of(order[at])[s];
      if (at + 1 < order.size()) earliest[at] = std::min(earliest[at], earliest[at + 1]);
    }
    for (std::size_t at = 0; at < order.size(); ++at) {
      const auto done = std::lower_bound(earliest.begin(), earliest.end(), problem.end_of(order[at])[s]);
      Lifetime& lifetime = lifetimes[order[at]];
      lifetime = {static_cast<Time>(at), std::max<Time>(lifetime.end, done - earliest.begin())};
    }
  }
  return lifetimes;
}

// A block, alive from its first begin to its last end.
struct Piece {
  Time begin = 0, end = 0;
  Index block = 0;
};

Piece piece_of(const Blocks& blocks, Index block, const std::vector<Lifetime>& lifetimes) {
  Piece piece{std::numeric_limits<Time>::max(), std::numeric_limits<Time>::min(), block};
  for (const Part& part : blocks.parts(block)) {
    if (!blocks.problem().alive(part.tensor)) continue;
    piece.begin = std::min(piece.begin, lifetimes[part.tensor].begin);
    piece.end = std::max(piece.end, lifetimes[part.tensor].end);
  }
  return piece;
}

}  // namespace

Plan plan_by_sweep(const Problem& problem) {
  const Blocks blocks(problem, /*connected=*/false);
  const std::vector<Lifetime> lifetimes = lifetimes_of(problem);
  std::vector<Bytes> offsets(blocks.count(), 0);
  std::vector<Piece> by_begin;
  Bytes highest_pinned = 0;
  for (Index block = 0; block < blocks.count(); ++block) {
    if (!blocks.pinned(block)) {
      by_begin.push_back(piece_of(blocks, block, lifetimes));
      continue;
    }
    offsets[block] = *blocks.pinned(block);
    highest_pinned = std::max(highest_pinned, offsets[block] + blocks.size(block));
  }
  FreeList free(align_up(highest_pinned, problem.alignment));
  std::vector<Piece> by_end = by_begin;
  std::stable_sort(by_begin.begin(), by_begin.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::stable_sort(by_end.begin(), by_end.end(), [](const Piece& a, const Piece& b) { return a.end < b.end; });
  std::size_t done = 0;
  for (const Piece& piece : by_begin) {
    for (; by_end[done].end <= piece.begin; ++done) {
      free.give(offsets[by_end[done].block], blocks.size(by_end[done].block));
    }
    offsets[piece.block] = free.take(blocks.size(piece.block));
  }
  return blocks.plan(offsets);
}

}  // namespace l2l::compiler::memory
