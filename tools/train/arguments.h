// The command line of l2l-train.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/command.h"

namespace l2l::tools {

struct TrainArguments {
  std::vector<std::string> words;  // the command line
  ConfigArguments config;
  std::int64_t steps = -1;
  std::string pretrained, data, output, resume, metrics, trace;
  std::vector<std::string> allow_change;  // keys
  bool new_head = false;  // model.new_head of the config; `pretrained` is model.pretrained, once the config is read
  bool resume_if_any = false, dry_run = false, quiet = false, allow_nonfinite = false, must_finish = false;
};

}  // namespace l2l::tools
