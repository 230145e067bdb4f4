// What l2l-plan plans beside a config: a bare allocation problem, a recorded program, a Hugging Face model. The first
// two need no model; each prints one JSON object on stdout (docs/formats.md) and returns the exit status. All throw
// BadInput, naming file, line and field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/command.h"

namespace l2l::tools {

struct ProblemArguments {
  std::string problem, output, svg;  // files; empty: none
  std::string solver = "portfolio";
  double seconds = 8;
  int threads = 0;  // 0: as many as there are cores
  std::uint64_t seed = 1;

  void add_to(Command& command);
};
// --problem: solves an allocation problem from a CSV file.
int plan_problem(const ProblemArguments& arguments);

struct TraceArguments {
  std::string trace;  // file; empty: none
  std::string budget = "0";
  std::string heuristic = "dtr_eq";
  std::string unreferenced = "evict";
  std::vector<std::string> shortcuts;

  void add_to(Command& command);
};
// --trace: runs a recorded program under a memory budget by Dynamic Tensor Rematerialization. A run that fails is
// printed, too.
int plan_trace(const TraceArguments& arguments);

// The first setting that fits with the longest sequence that fits with it.
struct ModelPlan {
  bool fits = false;
  std::vector<std::string> settings;  // of the options below, beside model.pretrained and model.sequence
  Options options;                    // where nothing fits: the smallest
  std::string shortfall;              // why the smallest does not fit
};
// What training a Hugging Face model takes on this machine. `assignments`: what is set in any case. Weights are not
// read, but where there are some, their files must be whole.
ModelPlan plan_model(const std::filesystem::path& directory, const std::vector<std::string>& assignments);

}  // namespace l2l::tools
