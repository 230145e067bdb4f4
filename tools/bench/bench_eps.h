// l2l-bench eps: how fast the parameter server's arithmetic runs, against what memory allows.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/bench/update_speed.h"

namespace l2l::tools {

struct EpsArguments {
  bench::UpdateSpeedSettings settings;
  bool quick = false;  // 4 Mi parameters, five rounds: for tests

  void add_to(CLI::App& app);
};

// Prints a table, or one JSON object. Returns the exit status.
int bench_eps(EpsArguments arguments, bool json);

}  // namespace l2l::tools
