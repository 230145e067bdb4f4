// l2l-plan --trace: a recorded program under a budget, as Dynamic Tensor Rematerialization would run it; no model is
// behind it.
#pragma once

#include <string>
#include <vector>

#include "tools/command.h"

namespace l2l::tools {

struct TraceArguments {
  std::string trace;  // file; empty: none
  std::string budget = "0";
  std::string heuristic = "dtr_eq";
  std::string unreferenced = "evict";
  std::vector<std::string> shortcuts;

  void add_to(Command& command);
};

// Prints one JSON object on stdout (docs/formats.md), also for a run that fails. Returns the exit status. Throws
// BadInput naming file, line and field.
int plan_trace(const TraceArguments& arguments);

}  // namespace l2l::tools
