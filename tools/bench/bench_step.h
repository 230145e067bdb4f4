// l2l-bench step CONFIG: what a config reaches per step, nothing saved.
#pragma once

#include <string>

#include "l2l/options.h"

namespace l2l::tools {

// One untimed step, then `steps` that count. Trains on synthetic bytes when the config names no data; checkpoints are
// neither written nor read. Prints a table, or one JSON object. Returns the exit status.
int bench_step(Options options, int steps, bool json);

}  // namespace l2l::tools
