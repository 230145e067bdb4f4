// Simulates a trace under a budget and counts what happens.
#pragma once

#include "compiler/remat/dtr/rematerializer.h"
#include "compiler/remat/dtr/trace.h"

namespace l2l::compiler::remat::dtr {

// When a run fails, the counts up to the failure.
struct Simulation {
  Failure failure = Failure::none;
  Time clock = 1;  // 1 + the time of all executions
  Bytes peak = 0;
  std::uint64_t evictions = 0;           // forced by the budget
  std::uint64_t released = 0;            // evicted or banished after the last reference
  std::uint64_t rematerializations = 0;  // repeated executions
};

// The authors' simulator uses Trace::time as Options::repeated_limit.
Simulation simulate(const Trace& trace, const Options& options);

// Runs `trace` on `core`, to its end or until `core` fails.
void replay(const Trace& trace, Rematerializer& core);

}  // namespace l2l::compiler::remat::dtr
