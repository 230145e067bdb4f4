// What steps of runs that differ only in what their blocks do take over those of the plain one, whose blocks keep their
// inputs alone, on the host. A machine is not equally fast for long; runs that train in turn find it the same, and the
// ratio of their steps holds in the next hour, too.
#pragma once

#include <optional>
#include <string>

#include "runtime/tuning/calibration.h"
#include "runtime/tuning/shallow_run.h"

namespace l2l::runtime {

// Figures are those of the calibration, or come from some seconds of training now. Thread-bound.
class StepRatios {
 public:
  // `options`: of a model like that of `plan`, as of shallower(). Plan and calibration outlive it. Throws OutOfMemory
  // when the plain run does not fit.
  StepRatios(const RunPlan& plan, Options options, Calibration& calibration);

  // The run of these options in which blocks do what `arrangement`, of the plan's model, says. Throws OutOfMemory.
  RunPlan run(const Arrangement& arrangement) const { return shallower_plan(plan_, options_, arrangement); }
  // A step of such a run over one of the plain one, measured thoroughly where that was once wanted. Throws OutOfMemory
  // when the two do not fit beside each other.
  StepRatio over_plain(const RunPlan& run, Effort effort = Effort::quick);
  // A step in seconds: one of the plain run, which is measured once, by the ratio. Throws OutOfMemory.
  double seconds(const RunPlan& run);

 private:
  std::string name_of_step(const RunPlan& run) const;
  std::optional<StepRatio> find(const std::string& name) const;
  void keep(const std::string& name, const StepRatio& ratio);

  const RunPlan& plan_;
  Calibration& calibration_;
  const Options options_;
  const RunPlan plain_;
  const std::string plain_name_;  // of its step
};

}  // namespace l2l::runtime
