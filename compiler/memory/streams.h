// Programs of several streams as planning problems: two tensors may share memory if no legal interleaving has both
// alive at once (SOMAS, MLSys 2023). Lifetimes are vector clocks.
#pragma once

#include <string>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Op `before` waits for op `after`.
struct Event {
  Index after = 0, before = 0;
};

// `producer` writes it first; `consumers`, which all follow the producer, read it or write it again. Without consumers
// (scratch of an op) it dies with its producer.
struct StreamTensor {
  std::string name;
  Bytes size = 0;
  Index producer = 0;
  std::vector<Index> consumers = {};
  bool lifelong = false;  // alive throughout the program; `producer` means nothing
};

// Plain data. The ops of one stream run in the order of the list.
struct StreamProgram {
  std::size_t streams = 1;
  Bytes alignment = 64;
  std::vector<std::size_t> ops = {};  // the stream of each
  std::vector<Event> events = {};
  std::vector<StreamTensor> tensors = {};
  std::vector<std::vector<Index>> groups = {};  // as in Problem
};

// Immutable. The partial order that streams and events enforce (happens-before).
class OpOrder {
 public:
  // Throws BadInput naming the op when streams or ops do not exist, or when waits form a cycle.
  explicit OpOrder(const StreamProgram& program);

  // The vector clock of `op`: how many ops of each stream are done before it starts.
  std::span<const Time> done(Index op) const { return {done_.data() + op * streams_, streams_}; }
  Time place(Index op) const { return place_[op]; }  // in its stream, from 0
  Time count(std::size_t stream) const { return counts_[stream]; }
  bool before(Index a, Index b) const { return place_[a] < done_[b * streams_ + stream_of_[a]]; }
  const std::vector<Index>& sorted() const { return sorted_; }  // a topological order

 private:
  std::size_t streams_;
  std::vector<std::size_t> stream_of_;
  std::vector<Time> place_, counts_, done_;
  std::vector<Index> sorted_;
};

// A tensor begins at the clock of its producer and ends at that of its last accesses. Throws BadInput as above, or
// naming the tensor whose producer or consumer does not exist, or whose consumer does not follow its producer.
Problem lower(const StreamProgram& program);

}  // namespace l2l::compiler::memory
