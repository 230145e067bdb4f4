// What rematerialization knows of a program: ops, the tensors they make, and the storages these lie in. Grows op by op.
// Thread-bound.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/bytes.h"

namespace l2l::compiler::remat::dtr {

using Index = std::uint32_t;       // of an op, a tensor or a storage, each counted in order of appearance
using Nanoseconds = std::int64_t;  // a clock, or how long an op takes
inline constexpr Index kNone = std::numeric_limits<Index>::max();

struct Output {
  Bytes bytes = 0;      // of a storage of its own; none for an alias
  Index alias = kNone;  // the place in `args` of the tensor whose storage it shares
};

struct Op {
  Nanoseconds time = 0;
  std::vector<Index> args;  // tensors; one may be there several times
  std::vector<Output> outputs;
};

class Graph {
 public:
  struct Node {  // an op
    Nanoseconds time;
    Bytes bytes;                       // of all outputs
    Index first, end;                  // tensors that it makes
    std::vector<Index> args;           // tensors
    std::vector<Index> reads, writes;  // storages of args and of outputs, in their order
  };
  struct Tensor {
    Index op, storage;
    Bytes bytes;  // of an alias 0
  };
  struct Storage {
    Bytes size;
    Nanoseconds cost;                  // of the distinct ops that make its tensors
    std::vector<Index> tensors;        // the first is not an alias
    std::vector<Index> makers, users;  // ops, each once: that make a tensor of it, that read one
  };

  // Appends an op; its outputs are the next tensors. Throws BadInput when it has none, or when an argument or an alias
  // is not there.
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
