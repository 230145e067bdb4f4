// What the rematerializer does, as callbacks: a simulator counts them, stage.h writes them down as a program.
#pragma once

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

enum class Eviction : std::uint8_t {
  budget,   // room was needed
  release,  // the program dropped its last reference; it may be recomputed for a descendant
  banish    // the same, and nothing will need it again
};

// Called in execution order. Indices are those of Rematerializer::graph(). An op is executed by allocate_buffer() for
// each output that is not an alias, and perform_op(). Spare outputs are dropped then.
class Callbacks {
 public:
  virtual ~Callbacks() = default;

  // There is room for `tensor`. `spare`: the tensor is in memory already, so this copy lives only while its op runs.
  virtual void allocate_buffer(Index /*tensor*/, bool /*spare*/) {}
  // All arguments are in memory. `again`: the op ran before, to recompute its outputs that are not spare.
  virtual void perform_op(Index /*op*/, bool /*again*/) {}
  // The storage, with all its aliases, leaves memory.
  virtual void perform_eviction(Index /*storage*/, Eviction /*reason*/) {}
  // From now on the storage is neither evicted nor recomputed.
  virtual void pin(Index /*storage*/) {}
};

}  // namespace l2l::compiler::remat::dtr
