// What the core asks of whoever drives it: a simulator counts, a stager writes a program down, a runtime would act.
#pragma once

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

enum class Eviction : std::uint8_t {
  budget,   // room was needed
  release,  // the program dropped its last reference; recomputed when a descendant is
  banish    // the same, and nothing will need it again
};

// Called in the order in which things happen. Indices are those of the core's graph, where sizes, arguments and outputs
// are. An execution of an op is: allocate_buffer() for each output that is not an alias, perform_op(), drop_spare().
class Callbacks {
 public:
  virtual ~Callbacks() = default;

  // Room for `tensor` is there. `spare`: it is in memory already, so this copy of it lives only while its op runs
  // again.
  virtual void allocate_buffer(Index /*tensor*/, bool /*spare*/) {}
  // All arguments are defined. `again`: it ran before, and what is recomputed are its outputs that are not spare.
  virtual void perform_op(Index /*op*/, bool /*again*/) {}
  virtual void drop_spare(Index /*tensor*/) {}
  // The storage with all its aliases leaves memory.
  virtual void perform_eviction(Index /*storage*/, Eviction /*reason*/) {}
  // `tensor` is needed and not defined: its op runs again, after what that op needs (the calls nest).
  virtual void rematerialize(Index /*tensor*/) {}
  // From now on the storage is neither evicted nor recomputed.
  virtual void pin(Index /*storage*/) {}
};

}  // namespace l2l::compiler::remat::dtr
