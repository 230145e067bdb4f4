// Which tensors of a program of streams may share memory, computed from the graph of ops instead of vector clocks: the
// second formulation of SOMAS (MLSys 2023), to compare with.
#pragma once

#include "compiler/memory/streams.h"

namespace l2l::compiler::memory {

// Immutable. The ancestors of each op as a row of bits; takes a bit for each pair of ops.
class AncestorRows {
 public:
  explicit AncestorRows(const StreamProgram& program);

  // Whether `a` is a strict ancestor of `b`.
  bool before(Index a, Index b) const { return rows_[b * words_ + a / 64] >> a % 64 & 1; }

  // Whether every op that accesses `p` is a strict ancestor of the op that writes `q` first.
  bool done_before(const StreamTensor& p, const StreamTensor& q) const;

 private:
  std::size_t words_;
  std::vector<std::uint64_t> rows_;
};

// By clocks: the number of ordered pairs (p, q) of tensors such that p is done before q begins.
std::uint64_t count_safe_pairs(const Problem& problem);

}  // namespace l2l::compiler::memory
