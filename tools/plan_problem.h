// l2l-plan --problem: an allocation problem from a CSV file, solved; no model is behind it.
#pragma once

#include <cstdint>
#include <string>

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

// Prints one JSON object on stdout (docs/formats.md). Returns the exit status. Throws BadInput naming file and line.
int plan_problem(const ProblemArguments& arguments);

}  // namespace l2l::tools
