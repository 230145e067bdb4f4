#include "runtime/plan/load_code.h"

#include "core/fault_point.h"
#include "l2l/errors.h"
#include "runtime/plan/kernel_choices.h"
#include "runtime/plan/programs.h"

namespace l2l::runtime {
namespace {

using compiler::Region;

// Zeros are valid indices: of tokens, classes, rows and documents.
void run_once(device::Device& device, device::Stream& stream, const device::Executable& program) {
  device::Bindings bindings;
  std::vector<std::unique_ptr<device::Buffer>> regions;
  for (std::size_t i = 0; i < bindings.regions.size(); ++i) {
    const auto region = static_cast<Region>(i);
    const Bytes bytes =
        region == Region::scratch ? program.program().scratch_bytes : program.program().graph.region_bytes(region);
    if (bytes == 0) continue;
    regions.push_back(device.allocate(bytes, "a first run of " + program.program().graph.name));
    bindings[region] = regions.back()->view();
    device.fill_zero(stream, bindings[region]);
  }
  device.launch(stream, program, bindings, {});
  device.synchronize(stream);
}

void run_once(device::Device& device, device::Stream& stream, const LayerPrograms& programs) {
  for (const auto* program :
       {&programs.forward, &programs.backward, &programs.drain, &programs.add, &programs.sum, &programs.logits}) {
    if (*program) run_once(device, stream, **program);
  }
}

}  // namespace

void load_code(const std::vector<std::shared_ptr<device::Device>>& devices, const models::Model& model,
               const ExecutionPlan& execution) {
  if (fault_point("plan.load_no_code")) return;
  for (const auto& device : devices) {
    if (device->uses_host_memory()) continue;
    take_kernels_of_first(*device, devices);
    const Programs programs(*device, model, execution.gradients, execution.parts, execution.summing());
    const auto stream = device->create_stream("first run");
    try {
      for (const LayerPrograms& type : programs.types()) run_once(*device, *stream, type);
    } catch (const OutOfMemory&) {
    }
  }
}

}  // namespace l2l::runtime
