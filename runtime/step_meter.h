// What a training step took: time, bytes over the link, waits, and the parameter server's bandwidth.
#pragma once

#include "l2l/trainer.h"
#include "runtime/engine.h"

namespace l2l::runtime {

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
