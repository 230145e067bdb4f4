// What a GPU's driver takes for a program's code is no longer free once the program has run. Runs are planned for what
// is free, so the programs run once before.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "models/model.h"
#include "runtime/plan/arena_plan.h"

namespace l2l::runtime {

// Runs the programs of `model`, whose blocks keep nothing yet, once on each device that has memory of its own, on
// zeros: the driver loads a kernel when it is first launched, with memory for what its registers do not hold.
// `execution`: without placements of blocks. Programs whose memory the device does not have stay for later: their run
// will be refused. Waits. Throws DeviceError.
void load_code(const std::vector<std::shared_ptr<device::Device>>& devices, const models::Model& model,
               const ExecutionPlan& execution);

}  // namespace l2l::runtime
