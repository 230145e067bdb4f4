#include "runtime/plan/run_plan.h"

#include "l2l/errors.h"

namespace l2l::runtime {

RunPlan::RunPlan(RunParts parts, Decisions made) : RunParts(std::move(parts)), decisions(std::move(made)) {
  if (static_cast<int>(decisions.placements.size()) != model.blocks()) {
    throw Error("a plan for " + std::to_string(model.blocks()) + " blocks was given placements of " +
                std::to_string(decisions.placements.size()));
  }
  verify(decisions, model);
  model = with_policies(std::move(model), decisions);
  execution.placements = decisions.placements;
  programs = compile(devices, model, execution.gradients);
  // One for all: devices may differ in what their programs need beside it.
  arena = std::make_unique<ArenaPlan>(model, scratch_of(model, programs), execution);
}

}  // namespace l2l::runtime
