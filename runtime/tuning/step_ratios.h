// Measured steps of runs that differ only in what their blocks do, as ratios. The plain run, in which blocks keep their
// inputs alone, on the host, is the denominator. A machine is not equally fast for long; runs that train in turn find
// it equally fast, and the ratio of their steps still holds an hour later.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tuning/calibration.h"
#include "runtime/tuning/shallow_run.h"

namespace l2l::runtime {

// Figures are those of the calibration, or come from some seconds of training in `session`, which is thorough or
// measures nothing. Thread-bound.
class StepRatios {
 public:
  // `options`: of a model like that of `parts`, made by shallower(). Parts and calibration outlive it.
  StepRatios(const RunParts& parts, Options options, Calibration& calibration, MeasuringSession& session);

  // The run of these options with blocks that do what `decisions`, for the model of `parts`, say.
  RunPlan run(const Decisions& decisions) const { return shallower_plan(parts_, options_, decisions, devices_); }
  // A step of such a run over one of the plain one, measured thoroughly where that was once wanted; nothing: is not in
  // the calibration.
  std::optional<StepRatio> known(const RunPlan& run) const;
  // The same, measured where it is not known. Throws OutOfMemory when the two do not fit beside each other.
  StepRatio over_plain(const RunPlan& run, Effort effort = Effort::quick);
  // A step in seconds: one of the plain run, which is measured once, by the ratio. Throws OutOfMemory.
  double seconds(const RunPlan& run);

 private:
  std::string name_of_step(const RunPlan& run) const;
  std::string name_of_ratio(const std::string& step, Effort effort) const;
  std::optional<StepRatio> known(const std::string& step) const;
  std::optional<StepRatio> find(const std::string& name) const;

  const RunParts& parts_;
  Calibration& calibration_;
  MeasuringSession& session_;
  const Options options_;
  const Devices devices_;  // of plans that are not to run but to be named; none where they may be
  const RunPlan plain_;
  const std::string plain_name_;  // of its step
};

// Of the proposals' steps over one of the plain run, on a shallower model that takes little memory beside the one that
// is planned: those that are known, and, where the session is thorough, those that can be measured, since the two may
// not fit beside each other. Of the others kUnknownStep.
std::vector<StepRatio> measure_steps(const RunParts& parts, const std::vector<Proposal>& proposals,
                                     Calibration& calibration, MeasuringSession& session);

}  // namespace l2l::runtime
