#include "runtime/plan/load_code.h"

#include "core/fault_point.h"
#include "core/run_at_once.h"
#include "l2l/errors.h"
#include "runtime/plan/programs.h"

namespace l2l::runtime {
namespace {

using compiler::Region;

// A program of one device, with zeros for memory. Zeros are valid indices: of tokens, classes, rows and documents.
class FirstRun {
 public:
  // Throws OutOfMemory.
  FirstRun(device::Device& device, const device::Executable& program)
      : device_(device), program_(program), stream_(device.create_stream("first run")) {
    for (std::size_t i = 0; i < bindings_.regions.size(); ++i) {
      const auto region = static_cast<Region>(i);
      const compiler::Program& its = program.program();
      const Bytes bytes = region == Region::scratch ? its.scratch_bytes : its.graph.region_bytes(region);
      if (bytes == 0) continue;
      memory_.push_back(device.allocate(bytes, "a first run of " + its.graph.name));
      bindings_[region] = memory_.back()->view();
    }
  }

  void run() {
    for (const device::BufferView region : bindings_.regions) {
      if (region.size > 0) device_.fill_zero(*stream_, region);
    }
    device_.launch(*stream_, program_, bindings_, {});
    device_.synchronize(*stream_);
  }

 private:
  device::Device& device_;
  const device::Executable& program_;
  device::Bindings bindings_;
  std::vector<std::unique_ptr<device::Buffer>> memory_;
  std::unique_ptr<device::Stream> stream_;  // the first to go
};

std::vector<const device::Executable*> all_of(const Programs& programs) {
  std::vector<const device::Executable*> all;
  for (const LayerPrograms& type : programs.types()) {
    for (const auto* program : {&type.forward, &type.backward, &type.drain, &type.add, &type.sum, &type.logits}) {
      if (*program) all.push_back(program->get());
    }
  }
  return all;
}

}  // namespace

void load_code(const RunParts& parts, const std::function<const models::Model&(std::size_t)>& model_of) {
  const Devices& devices = parts.devices;
  const ExecutionPlan& execution = parts.execution;
  if (devices.front()->uses_host_memory() || fault_point("plan.load_no_code")) return;
  const auto programs = compile(devices, model_of, execution.gradients, execution.parts, execution.summing());
  std::vector<std::vector<const device::Executable*>> of_devices;
  for (const auto& each : programs) of_devices.push_back(all_of(*each));
  try {
    for (std::size_t program = 0; program < of_devices.front().size(); ++program) {
      std::vector<std::unique_ptr<FirstRun>> runs;
      for (std::size_t i = 0; i < devices.size(); ++i) {
        runs.push_back(std::make_unique<FirstRun>(*devices[i], *of_devices[i][program]));
      }
      run_at_once(
          runs.size(), [&](std::size_t i) { runs[i]->run(); },
          [&](std::exception_ptr cause) {
            for (const auto& group : parts.peers.tensor) group->abort(cause);
          });
    }
  } catch (const OutOfMemory&) {
  }
}

}  // namespace l2l::runtime
