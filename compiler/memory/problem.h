// The memory planning problem: tensors with sizes and lifetimes, to be placed in one arena. In the literature this is
// dynamic storage allocation (DSA), or offline memory allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace l2l::compiler::memory {

using Time = std::int64_t;
using Index = std::uint32_t;  // of a tensor, or of a block (blocks.h)

struct Tensor {
  std::string name;
  Bytes size = 0;
  std::optional<Bytes> offset = {};  // the tensor is pinned there
};

// Plain data. Call check() (planner.h) before handing a problem to anything else here.
//
// A lifetime is a pair of vector clocks. Entry s of `begin` counts the events of stream s that happen before the tensor
// is first written; entry s of `end` counts those up to and including the last access on stream s. Tensor p is dead
// before tensor q is written if and only if end(p) <= begin(q) in every entry; only then may the two share memory. With
// one stream, lifetimes are half-open intervals [begin, end).
struct Problem {
  std::size_t streams = 1;
  Bytes alignment = 64;  // of every tensor's offset, of a group: of its first tensor's; a power of two
  std::vector<Tensor> tensors = {};
  std::vector<Time> begin = {}, end = {};       // [tensor * streams + stream]
  std::vector<std::vector<Index>> groups = {};  // placed contiguously in this order; a tensor is in at most one group

  std::span<const Time> begin_of(Index tensor) const { return {begin.data() + tensor * streams, streams}; }
  std::span<const Time> end_of(Index tensor) const { return {end.data() + tensor * streams, streams}; }

  // Appends a tensor that is alive in [from, until) of every stream. Returns its index.
  Index add(Tensor tensor, Time from, Time until) {
    tensors.push_back(std::move(tensor));
    begin.insert(begin.end(), streams, from);
    end.insert(end.end(), streams, until);
    return static_cast<Index>(tensors.size() - 1);
  }

  // Whether the tensor has both bytes and a lifetime. A tensor without them constrains nothing.
  bool alive(Index tensor) const {
    if (tensors[tensor].size == 0) return false;
    for (std::size_t s = 0; s < streams; ++s) {
      if (begin[tensor * streams + s] != end[tensor * streams + s]) return true;
    }
    return false;
  }
};

// The sum of a clock's entries: if p is done before q begins, the sums are in the same order.
inline double entry_sum(std::span<const Time> clock) {
  double sum = 0;
  for (const Time entry : clock) sum += static_cast<double>(entry);
  return sum;
}

struct Plan {
  std::vector<Bytes> offsets = {};  // per tensor
  Bytes footprint = 0;              // highest end of a tensor
};

}  // namespace l2l::compiler::memory
