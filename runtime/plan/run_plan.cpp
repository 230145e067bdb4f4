#include "runtime/plan/run_plan.h"

#include <algorithm>

#include "l2l/errors.h"
#include "models/exchange.h"

namespace l2l::runtime {

RunPlan::RunPlan(RunParts parts, Decisions made) : RunParts(std::move(parts)), decisions(std::move(made)) {
  if (static_cast<int>(decisions.placements.size()) != model.blocks()) {
    throw Error("a plan for " + std::to_string(model.blocks()) + " blocks was given placements of " +
                std::to_string(decisions.placements.size()));
  }
  verify(decisions, model);
  for (models::Model& shorter_model : shorter) {
    shorter_model = with_policies(std::move(shorter_model), model, decisions);
  }
  for (models::Model& other : others) other = with_policies(std::move(other), model, decisions);
  model = with_policies(std::move(model), decisions);
  execution.placements = decisions.placements;
  for (int device = 0; device < execution.all_devices(); ++device) {
    programs.push_back(std::make_unique<Programs>(*devices[static_cast<std::size_t>(device)], model_of(device),
                                                  execution.gradients, execution.parts, execution.summing()));
  }
  // One for all: devices and lengths may differ in what their programs need beside it.
  ArenaPlan::Scratch scratch = scratch_of(model, programs);
  for (const models::Model& shorter_model : shorter) {
    shorter_programs.push_back(
        compile(devices, shorter_model, execution.gradients, execution.parts, execution.summing()));
    for (const auto& [phase, bytes] : scratch_of(shorter_model, shorter_programs.back())) {
      scratch[phase] = std::max(scratch[phase], bytes);
    }
  }
  arena = std::make_unique<ArenaPlan>(model, scratch, execution);
}

void RunPlan::set_list(std::span<const std::uint32_t> ids) {
  models::set_list(model, ids);
  for (models::Model& shorter_model : shorter) models::set_list(shorter_model, ids);
}

}  // namespace l2l::runtime
