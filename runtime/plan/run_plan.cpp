#include "runtime/plan/run_plan.h"

#include <algorithm>

#include "l2l/errors.h"
#include "models/exchange.h"
#include "runtime/plan/kernel_choices.h"

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
  for (models::Model& other : others) {
    const Decisions its = of_share(decisions, other.shard);
    verify(its, other);
    other = with_policies(std::move(other), its);
  }
  model = with_policies(std::move(model), decisions);
  execution.placements = decisions.placements;
  compile_programs();
}

void RunPlan::compile_programs() {
  programs.clear();
  shorter_programs.clear();
  const auto its_model = [this](std::size_t device) -> const models::Model& {
    return model_of(static_cast<int>(device));
  };
  programs = compile(devices, its_model, execution.gradients, execution.parts, execution.summing());
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

bool RunPlan::has_other_kernels(const KernelChoices& choices) const {
  for (const auto& [device, used] : kernel_choices(devices)) {
    const auto offered = choices.find(device);
    if (offered == choices.end()) continue;
    for (const auto& [problem, kernel] : used) {
      const auto other = offered->second.find(problem);
      if (other != offered->second.end() && other->second != kernel) return true;
    }
  }
  return false;
}

bool RunPlan::take_kernels(const KernelChoices& choices) {
  const bool others = has_other_kernels(choices);
  for (const auto& each : devices) each->take_kernel_choices(choices);
  if (others) compile_programs();
  return others;
}

void RunPlan::set_list(std::span<const std::uint32_t> ids) {
  models::set_list(model, ids);
  for (models::Model& shorter_model : shorter) models::set_list(shorter_model, ids);
}

}  // namespace l2l::runtime
