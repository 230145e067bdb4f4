// The time of a step before it runs: the pieces of work of step_work.h, each at its cost on this machine (step_costs.h).
#pragma once

#include "l2l/trainer.h"
#include "runtime/step_costs.h"

namespace l2l::runtime {

// A visit's work with its costs.
struct VisitCost {
  Cost compute, h2d, d2h, update;
};

// How the costs of visits, in the order of step_work(), add up to a step.
struct StepModel {
  std::vector<VisitCost> visits;
  int cores = 1;        // of this process
  bool shares = false;  // the device computes on these cores

  // Work of all visits.
  VisitCost sum() const;
  // A device with a processor of its own: the longest of compute and either direction of the link, visit by visit, and
  // what nothing can hide: the first wire, and the last gradients and their update.
  double overlapped() const;
  // All work of this process's threads, spread over its cores.
  double processor() const;
  double step_seconds() const;
  std::string bound() const;  // what sets step_seconds()
};

// Measures what is not known where `may_measure`; the plan's device must then be idle.
StepPrediction predict_step(const RunPlan& plan, Calibration& calibration, bool may_measure);

}  // namespace l2l::runtime
