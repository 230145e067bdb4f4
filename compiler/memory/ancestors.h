// The graph-based side of safety: who is an ancestor of whom, as rows of bits.
#pragma once

#include "compiler/memory/streams.h"

namespace l2l::compiler::memory {

// Immutable. Takes a bit for each pair of ops.
class AncestorRows {
 public:
  explicit AncestorRows(const StreamProgram& program);

  // Whether `a` is a strict ancestor of `b`.
  bool before(Index a, Index b) const { return rows_[b * words_ + a / 64] >> a % 64 & 1; }

  // Whether every last op that touches `p` is a strict ancestor of the one that writes `q` first.
  bool done_before(const StreamProgram& program, const Storage& p, const Storage& q) const;

 private:
  std::size_t words_;
  std::vector<std::uint64_t> rows_;
};

}  // namespace l2l::compiler::memory
