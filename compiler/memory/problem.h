// What is to be placed: tensors with sizes and lifetimes on one or several streams.
//
// A lifetime is a pair of vector clocks. Entry s of `begin` counts the events of stream s that are done before the
// tensor is written first; entry s of `end` counts those of stream s up to the last one that reads or writes it. Tensor
// p is done before tensor q begins, and only then they may share memory, exactly when end(p) <= begin(q) in every
// entry. One stream is the usual case of half-open intervals [begin, end).
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
  std::optional<Bytes> offset = {};  // pinned there
};

// Plain data; a problem that check() (planner.h) accepts is what everything else here takes.
struct Problem {
  std::size_t streams = 1;
  Bytes alignment = 64;  // of every offset; a power of two. Of a group: of its first tensor, the others follow at once
  std::vector<Tensor> tensors = {};
  std::vector<Time> begin = {}, end = {};       // [tensor * streams + stream]
  std::vector<std::vector<Index>> groups = {};  // contiguous, in this order; a tensor is in one group at most

  std::span<const Time> begin_of(Index tensor) const { return {begin.data() + tensor * streams, streams}; }
  std::span<const Time> end_of(Index tensor) const { return {end.data() + tensor * streams, streams}; }

  // Appends a tensor that is alive in [from, until) of every stream.
  Index add(Tensor tensor, Time from, Time until) {
    tensors.push_back(std::move(tensor));
    begin.insert(begin.end(), streams, from);
    end.insert(end.end(), streams, until);
    return static_cast<Index>(tensors.size() - 1);
  }

  // Has bytes and a lifetime; others take part in nothing.
  bool alive(Index tensor) const {
    if (tensors[tensor].size == 0) return false;
    for (std::size_t s = 0; s < streams; ++s) {
      if (begin[tensor * streams + s] != end[tensor * streams + s]) return true;
    }
    return false;
  }

  bool done_before(Index p, Index q) const {
    for (std::size_t s = 0; s < streams; ++s) {
      if (end[p * streams + s] > begin[q * streams + s]) return false;
    }
    return true;
  }
};

struct Plan {
  std::vector<Bytes> offsets = {};  // per tensor
  Bytes footprint = 0;              // highest end
};

}  // namespace l2l::compiler::memory
