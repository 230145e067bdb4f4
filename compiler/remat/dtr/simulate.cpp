#include "compiler/remat/dtr/simulate.h"

namespace l2l::compiler::remat::dtr {
namespace {

class Counter final : public Callbacks {
 public:
  explicit Counter(Simulation& counts) : counts_(counts) {}
  void perform_op(Index /*op*/, bool again) override { counts_.rematerializations += again ? 1 : 0; }
  void perform_eviction(Index /*storage*/, Eviction reason) override {
    ++(reason == Eviction::budget ? counts_.evictions : counts_.released);
  }

 private:
  Simulation& counts_;
};

bool take(const Trace& trace, const Trace::Step& step, Rematerializer& core) {
  switch (step.action) {
    case Trace::Action::run:
      return core.run(trace.ops[step.index]);
    case Trace::Action::pin:
      return core.pin(step.index);
    case Trace::Action::retain:
      core.retain(step.index);
      return true;
    case Trace::Action::release:
      core.release(step.index);
      return true;
  }
  return true;
}

}  // namespace

void replay(const Trace& trace, Rematerializer& core) {
  for (const Trace::Step& step : trace.steps) {
    if (!take(trace, step, core)) return;
  }
}

Simulation simulate(const Trace& trace, const Options& options) {
  Simulation simulation;
  Counter counter(simulation);
  Rematerializer core(options, counter);
  replay(trace, core);
  simulation.failure = core.failure();
  simulation.clock = core.clock();
  simulation.peak = core.peak();
  return simulation;
}

}  // namespace l2l::compiler::remat::dtr
