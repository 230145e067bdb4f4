// What a training step took: time, bytes over the link, waits, and the parameter server's bandwidth.
#pragma once

#include <optional>

#include "l2l/trainer.h"
#include "runtime/engine.h"

namespace l2l::runtime {

// Of the bandwidth of memory. What was measured may have been measured while others used the memory, and gradients,
// which have just arrived, may come out of a cache: a run that is faster shows that memory carries more. Thread-bound.
class MemoryShare {
 public:
  // GB/s that were measured; nothing: is not known.
  explicit MemoryShare(std::optional<double> measured = {}) : most_(measured) {}
  // At most 1.
  std::optional<double> of(double gb_per_second);

 private:
  std::optional<double> most_;  // seen so far
};

// Measures from its construction to report(). Thread-bound: the thread that calls the engine, which must outlive it.
class StepMeter {
 public:
  explicit StepMeter(Engine& engine);
  // Fills in what was measured: times, bytes, stalls, eps_gb_per_second; and `tokens` of the step. Other fields keep
  // their defaults.
  StepReport report(std::int64_t tokens) const;

 private:
  // Running totals; a step's report holds what it added to them.
  struct Totals {
    Stalls stalls;
    LinkCounters link;
    eps::EpsWork eps;
  };
  Totals totals() const { return {engine_.stalls(), engine_.link_counters(), engine_.store().work()}; }

  Engine& engine_;
  const Clock::time_point begin_;
  const Totals before_;
};

}  // namespace l2l::runtime
