// The time of a step before it runs: the pieces of work of step_work.h, each at its cost on this machine (step_costs.h).
#pragma once

#include <vector>

#include "l2l/trainer.h"
#include "runtime/step_costs.h"

namespace l2l::runtime {

// A visit's work with its costs.
struct VisitCost {
  Cost compute, h2d, d2h;
  Cost update;  // of the parameter server, beside this visit and those after it: of the groups that its gradients
                // complete; where gradients are held, of those whose next forward it is
};

// How the costs of visits, in the order of step_work(), add up to a step in the steady state. Immutable.
struct StepModel {
  std::vector<VisitCost> visits;
  int cores = 1;        // of this process
  bool held = false;    // updates wait for the end of the pass
  double hand_over = 0;  // seconds per visit where the device shares the cores: threads that wake each other

  // The device computes on these cores, beside copies and updates.
  bool shares() const;

  // Work of all visits.
  VisitCost sum() const;
  // The longest of compute and either direction of the link (held: and of the next visit's update), visit by visit, and
  // what nothing hides: the first wire; the last gradients and their update.
  double overlapped() const;
  // Where they share the cores: compute, and what copies, updates and hand-overs take away from it.
  double shared() const;
  double step_seconds() const;
  // What is busy for longest.
  std::string bound() const;

 private:
  double hidden_part(std::size_t visit) const;
  double ends() const;
};

// Measures what is not known where `may_measure`; the plan's device must then be idle.
StepPrediction predict_step(const RunPlan& plan, Calibration& calibration, bool may_measure);

}  // namespace l2l::runtime
