// Programs of several streams: which tensors can never be alive at once in any legal interleaving, said in two ways
// (SOMAS, MLSys 2023): by vector clocks (lower()), and by rows of ancestors (AncestorRows). Both give the same answer.
#pragma once

#include <string>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Recorded after one op; another waits for it.
struct Event {
  Index after = 0, before = 0;
};

// Written first by `producer`; read or written again by `consumers`, all of which follow the producer. Nobody consumes
// it (scratch of an op): it is consumed by its producer.
struct StreamTensor {
  std::string name;
  Bytes size = 0;
  Index producer = 0;
  std::vector<Index> consumers = {};
  std::optional<Index> in_place_of =
      {};                 // a tensor that `producer` consumes, in whose memory this one lies; chains are fine
  bool lifelong = false;  // alive throughout, whoever produces it
  std::optional<Bytes> offset = {};  // pinned there
};

// Plain data. The ops of a stream run one after the other, in the order of the list.
struct StreamProgram {
  std::size_t streams = 1;
  Bytes alignment = 64;
  std::vector<std::size_t> ops = {};  // the stream of each
  std::vector<Event> events = {};
  std::vector<StreamTensor> tensors = {};
  std::vector<std::vector<Index>> groups = {};  // as in Problem; tensors that lie in place of another are in none
};

// Immutable. The order that streams and events enforce.
class OpOrder {
 public:
  // Throws BadInput naming the op when ops, streams or events do not exist, or when waits form a circle.
  explicit OpOrder(const StreamProgram& program);

  // Ops of each stream that are done before `op` starts: the vector clock of the latest that it follows.
  std::span<const Time> done(Index op) const { return {done_.data() + op * streams_, streams_}; }
  Time place(Index op) const { return place_[op]; }  // in its stream, from 0
  Time count(std::size_t stream) const { return counts_[stream]; }
  bool before(Index a, Index b) const { return place_[a] < done_[b * streams_ + stream_of_[a]]; }
  const std::vector<Index>& sorted() const { return sorted_; }  // each after all that it follows

 private:
  std::size_t streams_;
  std::vector<std::size_t> stream_of_;
  std::vector<Time> place_, counts_, done_;
  std::vector<Index> sorted_;
};

// Tensors in one memory (in place of each other) are one: who writes it first, and who touches it last on each stream.
struct Storage {
  Index root = 0;  // the tensor that is in place of none
  Bytes size = 0;
  std::vector<Index> last;  // an op per stream that touches it at all
  bool lifelong = false;
  std::optional<Bytes> offset;
};

struct Storages {
  std::vector<Storage> all;
  std::vector<Index> of_tensor;
};

// Throws BadInput naming the tensor: it is consumed by an op that does not follow its producer; or lies in place of a
// tensor that its producer does not consume, or that another op still consumes.
Storages storages_of(const StreamProgram& program, const OpOrder& order);

struct Lowered {
  Problem problem;               // a tensor per storage
  std::vector<Index> of_tensor;  // per tensor of the program: that of the problem
};

// Stream-based: begin is the clock of the producer, end that of the last consumers.
Lowered lower(const StreamProgram& program);

// How many ordered pairs (p, q) there are of which p is done before q begins.
std::uint64_t count_safe_pairs(const Problem& problem);

}  // namespace l2l::compiler::memory
