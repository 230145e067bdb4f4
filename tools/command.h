// What the command-line tools share: exit statuses, and options from CONFIG and --set.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "l2l/options.h"

namespace l2l::tools {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;   // while running
inline constexpr int kBadInput = 2;  // usage, config, data, does not fit

// CONFIG.toml [--set key=value]...
struct ConfigArguments {
  std::string config;
  std::vector<std::string> assignments;

  void add_to(CLI::App& app);
  // The file, then the assignments in order; checkpoint.directory is checkpoints/CONFIG unless set. Throws BadInput.
  Options load() const;
};

// Parses, runs `body`, and turns exceptions into one message on stderr and the exit status of the contract.
int run(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace l2l::tools
