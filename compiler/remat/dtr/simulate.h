// What a trace would cost under a budget: the core's decisions, counted.
#pragma once

#include "compiler/remat/dtr/rematerializer.h"
#include "compiler/remat/dtr/trace.h"

namespace l2l::compiler::remat::dtr {

// Of a run that failed: until then.
struct Simulation {
  Failure failure = Failure::none;
  Nanoseconds clock = 1;  // 1 and the time of all executions
  Bytes peak = 0;
  std::uint64_t evictions = 0;           // that the budget forced
  std::uint64_t released = 0;            // evicted or banished with the last reference
  std::uint64_t rematerializations = 0;  // ops that ran again, counted each time
};

// Options::repeated_limit holds as it is; the published simulator's is Trace::time.
Simulation simulate(const Trace& trace, const Options& options);

// Drives `core` through `trace` until it fails.
void replay(const Trace& trace, Rematerializer& core);

}  // namespace l2l::compiler::remat::dtr
