// Operator traces: refused with BadInput, or run under a budget that is kept where the run does not fail.
#include <sstream>
#include <string>

#include "compiler/remat/dtr/simulate.h"
#include "l2l/errors.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  namespace dtr = compiler::remat::dtr;
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const dtr::Trace trace = dtr::read_trace(stream, "trace");
    dtr::Options options;
    options.repeated_limit = trace.time;
    const dtr::Simulation free = dtr::simulate(trace, options);
    if (free.failure != dtr::Failure::none || free.evictions != 0 || free.clock < 1) __builtin_trap();
    if (free.rematerializations == 0 && free.clock != trace.time + 1) __builtin_trap();
    options.budget = free.peak / 2 + 1;  // 0 is no budget
    const dtr::Simulation bound = dtr::simulate(trace, options);
    if (bound.failure != dtr::Failure::none) return 0;
    if (bound.peak > options.budget || bound.clock < free.clock) __builtin_trap();
  } catch (const BadInput&) {
  }
  return 0;
}
