#include "tools/bench/measured_run.h"

#include "device/paced/paced_device.h"
#include "device/serial/serial_device.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/plan_run.h"

namespace l2l::tools {
namespace {

using runtime::Devices;
using runtime::Engine;
using runtime::RunPlan;

constexpr std::size_t kSpans = 400'000;
constexpr double kLearningRate = 1e-4;

Devices open(const MeasuredSettings& settings) {
  Devices devices;
  device::DeviceSettings named = runtime::device_settings(settings.options);
  for (std::int64_t i = 0; i < settings.options.device.count; ++i, ++named.index) {
    std::unique_ptr<device::Device> device =
        settings.paced ? std::make_unique<device::PacedDevice>(*settings.paced) : device::open_device(named);
    if (!settings.overlap) device = std::make_unique<device::SerialDevice>(std::move(device));
    devices.push_back(std::move(device));
  }
  return devices;
}

ModelSizes sizes_of(const RunPlan& plan) {
  const models::Model& model = plan.model;
  const auto gradients = [&](int layer) { return model.gradient_bytes(layer, plan.execution.gradients); };
  return {model.blocks(),
          plan.execution.microbatches,
          model.wire_bytes(model.block(model.blocks())),
          gradients(model.block(model.blocks())),
          model.wire_bytes(0) + model.wire_bytes(model.head()),
          gradients(0) + gradients(model.head()),
          model.activation_bytes()};
}

}  // namespace

Measurement measure(const MeasuredSettings& settings, int warm_up, int steps, const std::filesystem::path& trace_file) {
  const RunPlan plan = runtime::plan_run(runtime::without_files(settings.options), open(settings));
  runtime::check_limits(plan, runtime::memory_contract(plan));
  Trace trace(kSpans);
  plan.set_trace(&trace);
  Measurement result;
  result.sizes = sizes_of(plan);
  {
    Engine engine(plan, &trace);
    engine.minibatch().draw(plan.model);
    LinkCounters before;
    for (int step = 0; step < warm_up + steps; ++step) {
      if (step == warm_up) before = engine.link_counters();
      engine.train(static_cast<std::uint64_t>(step), kLearningRate);
    }
    const LinkCounters after = engine.link_counters();
    engine.store().complete_updates();
    result.h2d_bytes = (after.h2d() - before.h2d()) / static_cast<Bytes>(steps);
    result.d2h_bytes = (after.d2h() - before.d2h()) / static_cast<Bytes>(steps);
    result.device_bytes = plan.device_peak_bytes();
  }
  plan.set_trace(nullptr);
  result.schedule = make_schedule_report(trace, plan.model, warm_up);
  const auto samples = static_cast<double>(plan.options.batch.micro_batch * plan.options.batch.micro_batches);
  result.samples_per_second = 1e3 * samples / result.schedule.step_ms;
  if (!trace_file.empty()) trace.write(trace_file);
  return result;
}

}  // namespace l2l::tools
