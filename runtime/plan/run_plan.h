// Everything about a run that is decided before step 1. Making a plan chooses nothing and allocates nothing large.
#pragma once

#include <memory>
#include <span>

#include "runtime/plan/decisions.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/run_parts.h"

namespace l2l::runtime {

// The parts of a run with its decisions carried out: blocks of `model` have the programs of their policies, `execution`
// has their placements. Immutable but for the list of blocks, where they are exchanged, and kernels until there is an
// engine.
struct RunPlan : RunParts {
  // Checks and compiles the programs and plans the arena, which serves all lengths. `decisions` has a placement for
  // each block; its micro_batch, if any, is that of `parts`. Throws Error where they do not fit together.
  RunPlan(RunParts parts, Decisions decisions);
  RunPlan(RunPlan&&) = delete;  // programs refer to the model

  Decisions decisions;
  std::vector<std::unique_ptr<Programs>> programs;                       // by device
  std::vector<std::vector<std::unique_ptr<Programs>>> shorter_programs;  // of each of `shorter`, by device
  std::unique_ptr<ArenaPlan> arena;                                      // of each device

  // Whether the programs were compiled with other kernels than these, where those are chosen by time.
  bool has_other_kernels(const KernelChoices& choices) const;
  // Hands the choices to the devices, and where the programs have others compiles them again. Not once an engine has
  // them. Returns whether it did, after which the arena may be larger. Throws BadInput for a choice that the device
  // cannot read.
  bool take_kernels(const KernelChoices& choices);

  // Puts the blocks of a list, which check_list() accepts (models/exchange.h), into the models of all lengths. All is
  // planned for the longest list, which they have at first.
  void set_list(std::span<const std::uint32_t> ids);

 private:
  void compile_programs();
};

}  // namespace l2l::runtime
