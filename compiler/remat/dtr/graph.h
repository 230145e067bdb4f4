// The program to rematerialize: ops, their tensors, and the storages that tensors share. Grows op by op. Thread-bound.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/bytes.h"

namespace l2l::compiler::remat::dtr {

using Index = std::uint32_t;  // of an op, a tensor or a storage, each numbered in order of appearance
using Time = std::int64_t;    // ns
inline constexpr Index kNone = std::numeric_limits<Index>::max();

struct Output {
  Bytes bytes = 0;      // of its own storage; 0 for an alias
  Index alias = kNone;  // an alias: the position in `args` of the tensor whose storage it shares
};

struct Op {
  Time time = 0;
  std::vector<Index> args;  // tensors, possibly repeated
  std::vector<Output> outputs;
};

class Graph {
 public:
  struct Node {  // an op
    Time time;
    Bytes bytes;                       // of all outputs
    Index first, end;                  // tensors that it makes
    std::vector<Index> args;           // tensors
    std::vector<Index> reads, writes;  // storages of args and of outputs, in their order
  };
  struct Tensor {
    Index op, storage;
    Bytes bytes;  // 0 for an alias
  };
  struct Storage {
    Bytes size;
    Time cost;                         // of the distinct ops that make its tensors
    std::vector<Index> tensors;        // the first is not an alias
    std::vector<Index> makers, users;  // ops, each once: that make a tensor of it, that read one
  };

  // Appends an op, whose outputs are the next tensors; returns its index. Throws BadInput when it has no output, or
  // when an argument or an alias does not exist.
  Index add(const Op& op);

  const std::vector<Node>& ops() const { return ops_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Storage>& storages() const { return storages_; }

 private:
  void check(const Op& op) const;
  Index storage_of(const Op& op, const Output& output);

  std::vector<Node> ops_;
  std::vector<Tensor> tensors_;
  std::vector<Storage> storages_;
};

}  // namespace l2l::compiler::remat::dtr
