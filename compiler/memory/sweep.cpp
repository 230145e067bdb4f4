#include <algorithm>
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

// A tensor, or a group, which is alive from its first begin to its last end.
struct Piece {
  Time begin = 0, end = 0;
  Bytes size = 0;
  std::vector<Index> tensors;
};

class PlanBySweep {
 public:
  explicit PlanBySweep(const Problem& problem) : problem_(problem) {
    plan_.offsets.assign(problem.tensors.size(), 0);
    std::vector<bool> taken(problem.tensors.size(), false);
    for (const std::vector<Index>& group : problem.groups) {
      for (const Index t : group) taken[t] = true;
      add(group);
    }
    for (Index t = 0; t < problem.tensors.size(); ++t) {
      if (!taken[t]) add({t});
    }
  }

  Plan run() {
    if (problem_.streams == 1) {
      sweep();
    } else {
      Bytes top = highest_pinned_;
      for (const Piece& piece : pieces_) {
        put(piece, top);
        top += piece.size;
      }
    }
    for (std::size_t t = 0; t < plan_.offsets.size(); ++t) {
      plan_.footprint = std::max(plan_.footprint, plan_.offsets[t] + problem_.tensors[t].size);
    }
    return std::move(plan_);
  }

 private:
  void add(std::vector<Index> tensors) {
    Piece piece{0, 0, 0, std::move(tensors)};
    std::optional<Bytes> pinned;
    bool alive = false;
    for (const Index t : piece.tensors) {
      if (problem_.tensors[t].offset) pinned = *problem_.tensors[t].offset - piece.size;
      piece.size += problem_.tensors[t].size;
      if (!problem_.alive(t)) continue;
      piece.begin = alive ? std::min(piece.begin, problem_.begin_of(t)[0]) : problem_.begin_of(t)[0];
      piece.end = alive ? std::max(piece.end, problem_.end_of(t)[0]) : problem_.end_of(t)[0];
      alive = true;
    }
    piece.size = align_up(piece.size, problem_.alignment);
    if (pinned || !alive) {
      put(piece, pinned.value_or(0));
      if (pinned) highest_pinned_ = std::max(highest_pinned_, *pinned + piece.size);
    } else {
      pieces_.push_back(std::move(piece));
    }
  }

  void put(const Piece& piece, Bytes offset) {
    for (const Index t : piece.tensors) {
      plan_.offsets[t] = offset;
      offset += problem_.tensors[t].size;
    }
  }

  void sweep() {
    std::vector<std::size_t> by_begin(pieces_.size());
    for (std::size_t i = 0; i < by_begin.size(); ++i) by_begin[i] = i;
    std::vector<std::size_t> by_end = by_begin;
    std::stable_sort(by_begin.begin(), by_begin.end(),
                     [&](auto a, auto b) { return pieces_[a].begin < pieces_[b].begin; });
    std::stable_sort(by_end.begin(), by_end.end(), [&](auto a, auto b) { return pieces_[a].end < pieces_[b].end; });
    FreeList free(align_up(highest_pinned_, problem_.alignment));
    std::size_t done = 0;
    for (const std::size_t i : by_begin) {
      for (; pieces_[by_end[done]].end <= pieces_[i].begin; ++done) {
        const Piece& piece = pieces_[by_end[done]];
        free.give(plan_.offsets[piece.tensors.front()], piece.size);
      }
      put(pieces_[i], free.take(pieces_[i].size));
    }
  }

  const Problem& problem_;
  std::vector<Piece> pieces_;
  Bytes highest_pinned_ = 0;  // highest end of a pinned piece
  Plan plan_;
};

}  // namespace

Plan plan_by_sweep(const Problem& problem) { return PlanBySweep(problem).run(); }

}  // namespace l2l::compiler::memory
