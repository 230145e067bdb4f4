// What a GPU's driver takes for a program's code is no longer free once the program has run. Runs are planned for what
// is free, so the programs run once before.
#pragma once

#include <functional>

#include "runtime/plan/run_parts.h"

namespace l2l::runtime {

// Runs the programs of model_of(i), whose blocks keep nothing yet, once on the i-th device, where devices have memory
// of their own, on zeros: the driver loads a kernel when it is first launched, with memory for what its registers do
// not hold. Each program runs on all devices at once. `parts`: without placements of blocks. Programs whose memory a
// device does not have stay for later, as do those behind them: their run will be refused. Waits. Throws DeviceError.
void load_code(const RunParts& parts, const std::function<const models::Model&(std::size_t)>& model_of);

}  // namespace l2l::runtime
