// What to change where a planned run does not fit.
#pragma once

#include <string>
#include <vector>

#include "l2l/trainer.h"
#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// Something that bounds a kind of memory, and what a run needs of it.
struct ContractLimit {
  std::string what;  // "device memory"
  std::string name;  // of the limit: "device.memory"
  Bytes need = 0, have = 0;

  bool holds() const { return need <= have; }
};

// All limits that options and machine set to the run of `plan`, whose contract is this.
std::vector<ContractLimit> contract_limits(const RunPlan& plan, const MemoryContract& contract);

// Which other settings would need less of `exceeded`, one of these limits, and how much that would be; what costs the
// run least comes first. Only what is not set so already, and what helps: each is planned, for about a second in all.
std::string memory_advice(const RunPlan& plan, const MemoryContract& contract, const ContractLimit& exceeded);

}  // namespace l2l::runtime
